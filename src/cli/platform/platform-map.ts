import { closeSync, openSync, readSync } from 'node:fs';
import { isAlias, isMap, isNode, isScalar, isSeq, LineCounter, parseDocument, type Document } from 'yaml';
import * as z from 'zod';
import {
  APP_SCOPE_FORMAT,
  toCredentialVariables,
  isRestriction,
  MAX_RESTRICTIONS,
  toVariablePrefix,
} from '../../foundation/common/names.js';
import { EVENT_TYPES, type EventType } from '../../domain/events/event-types.js';
import { toFileVariable } from '../../foundation/config/environment.js';
import { SECTIONS, VARIABLE_TYPES } from '../../foundation/config/variables.js';
import { describeCause } from '../failures.js';
import { CommandFailedError } from '../terminal.js';

/** The name of this service in the map. */
export const OWN_NAME = 'auth';
/** The variable in which other services find the address of auth. */
export const OWN_URL_VARIABLE = toUrlVariable(OWN_NAME);
/** The targets of a node whose registration names none. */
export const NODE_TARGETS = 'NODE_TARGETS';
/** Only auth has it: a service with it could make login challenges and read the secrets that auth encrypts. */
export const MASTER_KEY = 'MASTER_KEY';
const UNUSABLE = 'map_unusable';
/** Enough for some 2,000 services; bounds the time and memory that a hostile map can cost. */
const MAX_MAP_BYTES = 256 * 1024;
const MAX_MISTAKES = 20;
const OWN_VARIABLES = ['DATABASE_URL', 'SECRET_KEY', MASTER_KEY, 'ADMIN_API_KEY', NODE_TARGETS];
/** `init` writes these for a service that embeds a verifier, so the map must not use them for an address. */
const VERIFIER_VARIABLES = ['SERVICE_NAME', 'JWT_ISSUER', 'JWT_AUDIENCE'];

const serviceName = z
  .string()
  .regex(/^[A-Za-z][A-Za-z0-9._-]{0,99}$/, 'must be a letter, then letters, digits, dots, dashes or underscores');
const variableName = z.string().regex(/^[A-Z][A-Z0-9_]{0,99}$/, 'must be a variable name, as in LOGGING_SERVICE_URL');
/** These characters need no quotes in an environment file. */
const PLAIN_URL = /^https?:\/\/[\w.:[\]-]+(\/[\w.~%/-]*)?$/;
const ADDRESS_DETAIL = 'must be an http(s) URL, as in http://127.0.0.1:7701';
const address = z
  .string()
  .regex(PLAIN_URL, { error: ADDRESS_DETAIL, abort: true })
  .refine((url) => URL.canParse(url), ADDRESS_DETAIL);
const place = z
  .string()
  .regex(/^[\w.-]+(\/[\w.~%/-]*)?$/, 'must be a service of this map, with an optional path: logging/api/v0/logs');

const appScopes = z
  .array(z.string().refine(APP_SCOPE_FORMAT.isName, APP_SCOPE_FORMAT.detail))
  .refine(
    (scopes) => isRestriction(scopes, APP_SCOPE_FORMAT.isName),
    `must be 1 to ${MAX_RESTRICTIONS} different scopes, or nothing`,
  );
const restrictedCall = z.strictObject({
  scopes: appScopes,
  for_users: z.boolean().default(false).describe('it gets tokens for users at the target (POST /internal/token)'),
});
/**
 * A list of targets, whose credentials keep their present scopes and are not for users, or a mapping from each target to
 * its scopes: `ocr: [documents:read]`, or to `{ scopes: [documents:read], for_users: true }`. A target without a value
 * (`ocr:`) gets every scope.
 */
const calls = z.union([z.array(serviceName), z.record(serviceName, z.union([appScopes, restrictedCall]).nullable())]);

const service = z.strictObject({
  url: address.describe('where the others reach it'),
  namespace: z
    .string()
    .regex(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/, 'must be the name of a namespace of Kubernetes')
    .optional()
    .describe('where apply --to kubernetes puts its Secret'),
  calls: calls.default([]).describe('the services that it calls in its own name, with or without scopes'),
  events: z
    .array(z.enum(EVENT_TYPES))
    .refine((types) => new Set(types).size === types.length && types.length > 0, 'must be one or more different types')
    .optional()
    .describe('the types of events that it reads; without it, its subscription stays as it is'),
  urls: z.record(variableName, place).default({}).describe('further addresses that it needs: VARIABLE: service/path'),
  admin_endpoints: z.boolean().default(false).describe('it has routes behind X-Admin-Key'),
  verifies_access_tokens: z.boolean().default(false).describe('it checks access tokens of users by itself'),
});
const nodes = z
  .strictObject({ targets: z.array(serviceName).min(1).max(MAX_RESTRICTIONS) })
  .describe('the only services at which a new node is accepted');
const mapSchema = z
  .strictObject({ services: z.record(serviceName, service), nodes: nodes.optional() })
  .superRefine(addContradictions);
type RawMap = z.output<typeof mapSchema>;
/** An address in `urls`. */
interface Place {
  readonly variable: string;
  /** The service of the address. */
  readonly name: string;
  readonly path: string;
}
type AddIssue = (path: (string | number)[], message: string) => void;

/** One service of the platform, and what its environment file must hold. */
export interface MappedService {
  readonly name: string;
  readonly url: string;
  /** The namespace of its Kubernetes Secret. */
  readonly namespace?: string | undefined;
  /** The targets of its calls: it has one credential for each. */
  readonly calls: readonly string[];
  /** The scopes of its credentials by target; null allows all. A target without an entry keeps its present scopes. */
  readonly scopes: Readonly<Record<string, readonly string[] | null>>;
  /** Whether its credentials are for users, by target. A target without an entry stays as it is. */
  readonly forUsers: Readonly<Record<string, boolean>>;
  /** Only for auth: the targets of a node whose registration names none. */
  readonly nodeTargets?: readonly string[] | undefined;
  /** The types of events that it subscribes to. Undefined leaves its subscription as it is. */
  readonly events?: readonly EventType[] | undefined;
  readonly urls: readonly { readonly variable: string; readonly url: string }[];
  readonly adminEndpoints: boolean;
  readonly verifiesAccessTokens: boolean;
}

/** The services and their calls: auth comes first, the others in the order of the file. */
export interface PlatformMap {
  readonly services: readonly MappedService[];
}

/**
 * @param path of a YAML file
 * @throws {CommandFailedError} with the line of every mistake
 */
export function readPlatformMap(path: string): PlatformMap {
  return parsePlatformMap(readMapText(path), path);
}

/** @throws {CommandFailedError} */
export function readMapText(path: string): string {
  try {
    return readBounded(path);
  } catch (error) {
    throw new CommandFailedError(`The map ${path} cannot be read: ${describeCause(error)}. Correct --map.`, UNUSABLE);
  }
}

/** Reads up to the bound, because a pipe has no size and a device has no end. */
function readBounded(path: string): string {
  const descriptor = openSync(path, 'r');
  try {
    const bytes = Buffer.alloc(MAX_MAP_BYTES + 1);
    let [length, read] = [0, 0];
    do length += read = readSync(descriptor, bytes, length, bytes.length - length, null);
    while (read > 0 && length < bytes.length);
    if (length > MAX_MAP_BYTES) throw new Error(`it has more than ${MAX_MAP_BYTES / 1024} KB`);
    return bytes.toString('utf8', 0, length);
  } finally {
    closeSync(descriptor);
  }
}

/** @param ownUrl where the others reach auth, in place of its address in the map */
export function parsePlatformMap(text: string, path: string, ownUrl?: string): PlatformMap {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false });
  const unreadable = document.errors.map(({ pos, message }) => ({ line: lines.linePos(pos[0]).line, message }));
  if (unreadable.length > 0) throw createMapError(path, unreadable);
  const parsed = mapSchema.safeParse(expandAliases(document, path));
  if (parsed.success) return { services: toServices(parsed.data, ownUrl) };
  // Bounded, because each mistake costs a search for its line.
  const mistakes = parsed.error.issues
    .flatMap(toMistakes)
    .slice(0, MAX_MISTAKES + 1)
    .map(({ path: at, message }) => ({
      line: lines.linePos(findOffset(document, at)).line,
      message: at.length > 0 ? `${at.join('.')}: ${message}` : message,
    }));
  throw createMapError(path, mistakes);
}

/** Refuses an alias without an anchor, and aliases that would expand to more than fits into memory. */
function expandAliases(document: Document.Parsed, path: string): unknown {
  try {
    return document.toJS({ maxAliasCount: 100 });
  } catch {
    throw createMapError(path, [
      { line: 1, message: 'has aliases that cannot be resolved, or that stand for too much' },
    ]);
  }
}

function createMapError(path: string, mistakes: { line: number; message: string }[]): CommandFailedError {
  const inOrder = mistakes.sort((left, right) => left.line - right.line);
  const said = inOrder.slice(0, MAX_MISTAKES).map(({ line, message }) => `\n  ${path}:${line} ${message}`);
  if (inOrder.length > MAX_MISTAKES) said.push('\n  and more');
  return new CommandFailedError(`The map is not usable:${said.join('')}`, UNUSABLE);
}

/** A mistake about a key is reported at the line of that key. */
function toMistakes(issue: z.core.$ZodIssue): { path: PropertyKey[]; message: string }[] {
  if (issue.code === 'unrecognized_keys')
    return issue.keys.map((key) => ({ path: [...issue.path, key], message: 'is not known here' }));
  if (issue.code === 'invalid_union') {
    // The operator meant the form whose mistake is inside it, rather than the one that does not match at all.
    const meant = issue.errors.find((issues) => issues.every(({ path }) => path.length > 0)) ?? issue.errors[0] ?? [];
    return meant.flatMap((each) => toMistakes({ ...each, path: [...issue.path, ...each.path] }));
  }
  if (issue.code === 'invalid_key')
    return [{ path: issue.path, message: issue.issues[0]?.message ?? 'is not a valid name' }];
  return [{ path: issue.path, message: issue.message }];
}

/** @returns where in the text the last existing part of the path begins */
function findOffset(document: Document.Parsed, path: PropertyKey[]): number {
  let node: unknown = document.contents;
  let offset = 0;
  for (const step of path) {
    if (isAlias(node)) node = node.resolve(document);
    const pair = isMap(node)
      ? node.items.find(({ key }) => isScalar(key) && String(key.value) === String(step))
      : undefined;
    const found: unknown = isSeq(node) ? node.items[Number(step)] : pair?.key;
    if (!isNode(found)) break;
    offset = found.range?.[0] ?? offset;
    node = pair ? pair.value : found;
  }
  return offset;
}

/** @returns the targets, each with its key or index in the map */
function listCalls({ calls }: RawMap['services'][string]): { target: string; at: string | number }[] {
  if (Array.isArray(calls)) return calls.map((target, at) => ({ target, at }));
  return Object.keys(calls).map((target) => ({ target, at: target }));
}

function addContradictions({ services, nodes }: RawMap, context: z.RefinementCtx): void {
  const addIssue: AddIssue = (path, message) =>
    context.addIssue({ code: 'custom', path: ['services', ...path], message });
  nodes?.targets.forEach((target, index, all) => {
    const path = ['nodes', 'targets', index];
    if (!Object.hasOwn(services, target))
      context.addIssue({ code: 'custom', path, message: `${target} is not a service of this map` });
    if (all.indexOf(target) !== index) context.addIssue({ code: 'custom', path, message: `${target} is listed twice` });
  });
  if (!Object.hasOwn(services, OWN_NAME)) addIssue([], `has no ${OWN_NAME}, which is this service itself`);
  const byPrefix = new Map<string, string>();
  for (const [name, raw] of Object.entries(services)) {
    const twin = byPrefix.get(toVariablePrefix(name));
    if (twin !== undefined) addIssue([name], `would have the same variables as ${twin}: ${toVariablePrefix(name)}_…`);
    byPrefix.set(toVariablePrefix(name), name);
    const targets = listCalls(raw).map(({ target }) => target);
    listCalls(raw).forEach(({ target, at }, index) => {
      if (!Object.hasOwn(services, target)) addIssue([name, 'calls', at], `${target} is not a service of this map`);
      if (target === name) addIssue([name, 'calls', at], 'a service does not call itself');
      if (targets.indexOf(target) !== index) addIssue([name, 'calls', at], `${target} is listed twice`);
    });
    const credentials = targets.flatMap((target) => Object.values(toCredentialVariables(target)));
    const callsAuth = targets.includes(OWN_NAME);
    if (raw.events && name === OWN_NAME) addIssue([name, 'events'], 'this service does not read its own events');
    else if (raw.events && !callsAuth)
      addIssue(
        [name, 'events'],
        `a service reads events with its credential for ${OWN_NAME}: add ${OWN_NAME} to its calls`,
      );
    addAddressContradictions(name, raw, addIssue);
    const taken = [...OWN_VARIABLES, ...credentials, ...(callsAuth ? VERIFIER_VARIABLES : [])];
    for (const { variable, name: to } of listPlaces(raw)) {
      if (!Object.hasOwn(services, to)) addIssue([name, 'urls', variable], `${to} is not a service of this map`);
      if (taken.includes(variable)) addIssue([name, 'urls', variable], 'is already used for something else');
      const meant = targets.find((target) => variable === toUrlVariable(target));
      if (meant !== undefined && to !== meant)
        addIssue([name, 'urls', variable], `must be an address of ${meant}: the service sends credentials there`);
    }
  }
}

/** Refuses a call whose `…_URL` would replace another variable of the caller. */
function addAddressContradictions(name: string, raw: RawMap['services'][string], addIssue: AddIssue): void {
  // An address of a service named logging-service is what that variable of auth is for.
  const variablesOfAuth = Object.keys(VARIABLE_TYPES).filter((variable) => variable !== 'LOGGING_SERVICE_URL');
  const reserved = [...OWN_VARIABLES, ...(name === OWN_NAME ? variablesOfAuth : [])];
  for (const { target, at } of listCalls(raw))
    if (reserved.includes(toUrlVariable(target)) && !isGiven(listPlaces(raw), target))
      addIssue(
        [name, 'calls', at],
        `its address would be ${toUrlVariable(target)}, which is already used for something else: name a variable for it in urls`,
      );
}

function toServices({ services, nodes }: RawMap, ownUrl?: string): MappedService[] {
  const findUrl = (name: string): string => (name === OWN_NAME ? ownUrl : undefined) ?? services[name]?.url ?? '';
  return Object.entries(services)
    .sort(([left], [right]) => Number(left !== OWN_NAME) - Number(right !== OWN_NAME))
    .map(([name, raw]) => {
      const given = listPlaces(raw);
      const calls = listCalls(raw).map(({ target }) => target);
      const plain = calls
        .filter((target) => !isGiven(given, target))
        .map((target) => ({ variable: toUrlVariable(target), name: target, path: '' }));
      return {
        name,
        url: findUrl(name),
        namespace: raw.namespace,
        calls,
        ...toRestrictions(raw.calls),
        events: raw.events,
        ...(name === OWN_NAME && { nodeTargets: nodes?.targets }),
        urls: [...plain, ...given].map((url) => ({
          variable: url.variable,
          url: findUrl(url.name).replace(/\/$/, '') + url.path,
        })),
        adminEndpoints: raw.admin_endpoints,
        verifiesAccessTokens: raw.verifies_access_tokens,
      };
    });
}

function toRestrictions(calls: RawMap['services'][string]['calls']): Pick<MappedService, 'scopes' | 'forUsers'> {
  // Least privilege: only a pair that the map describes is for users. Its scopes may be an operator's, so they stay.
  if (Array.isArray(calls)) return { scopes: {}, forUsers: Object.fromEntries(calls.map((target) => [target, false])) };
  const given = Object.entries(calls);
  const described = given.map(([target, call]) => {
    const { scopes, for_users } = call === null || Array.isArray(call) ? { scopes: call, for_users: false } : call;
    return { target, scopes, for_users };
  });
  return {
    scopes: Object.fromEntries(described.map(({ target, scopes }) => [target, scopes])),
    forUsers: Object.fromEntries(described.map(({ target, for_users }) => [target, for_users])),
  };
}

function toUrlVariable(target: string): string {
  return `${toVariablePrefix(target)}_URL`;
}

function listPlaces({ urls }: RawMap['services'][string]): Place[] {
  return Object.entries(urls).map(([variable, value]) => ({ variable, ...parsePlace(value) }));
}

/** Whether the map itself gives the address of the target, so that no variable is made for it. */
function isGiven(places: readonly Place[], target: string): boolean {
  // A verifier reads AUTH_URL, even when the map gives the same address under another name too.
  return places.some(({ variable, name }) => (target === OWN_NAME ? variable === OWN_URL_VARIABLE : name === target));
}

function parsePlace(value: string): { name: string; path: string } {
  const slash = value.indexOf('/');
  return slash < 0 ? { name: value, path: '' } : { name: value.slice(0, slash), path: value.slice(slash) };
}

const SCHEMA_OPTIONS = { io: 'input', unrepresentable: 'any' } as const;
/** JSON Schemas of the map and of the service's variables, for editors and pipelines. */
export const SCHEMAS = { map: createMapSchema, variables: createVariablesSchema };

function createMapSchema(): object {
  const schema = z.toJSONSchema(mapSchema, SCHEMA_OPTIONS);
  return { title: 'The map of a platform: its services, and which calls which', ...schema };
}

/** Describes the form of values only; rules between variables are checked when the service starts. */
function createVariablesSchema(): object {
  const { properties: forms = {}, ...schema } = z.toJSONSchema(z.object(VARIABLE_TYPES), SCHEMA_OPTIONS);
  const properties = SECTIONS.flatMap(({ variables }) =>
    Object.entries(variables).flatMap(([name, { text, mayBeFile }]): [string, object][] => {
      const { bounds } = forms[name] as { bounds: string };
      const variable = { ...(forms[name] as object), bounds: undefined, description: `${text} (${bounds})` };
      const file = { type: 'string', description: `The name of a file that holds ${name}` };
      return [[name, variable], ...(mayBeFile ? [[toFileVariable(name), file] as [string, object]] : [])];
    }),
  );
  return {
    ...schema,
    title: 'The variables of the service',
    properties: Object.fromEntries(properties),
    patternProperties: { '^(OTEL_|NODE_(OPTIONS|EXTRA_CA_CERTS)$)': { type: 'string' } },
    // A required variable may come from a file, and development has defaults.
    required: [],
    additionalProperties: false,
  };
}
