// `apply` does what `init` does with app credentials, over HTTP and without the database; `doctor` without --env-dir
// checks as much from afar. Of two concurrent runs one fails: a pair has one live credential, and a key is rotated only
// if it is the one that the plan saw.
import { dirname } from 'node:path';
import * as z from 'zod';
import { joinPath } from '../http-client.js';
import { formatPair } from '../credential-state.js';
import { changesRights } from './plan-report.js';
import type { AppCredentialResponse } from '../../api/admin/app-credentials.admin.controller.js';
import { EVENT_TYPES } from '../../domain/events/event-types.js';
import { isId } from '../../foundation/common/ids.js';
import { computeDigest, findKeys } from '../../foundation/crypto/secret.js';
import type { AdminClient } from '../remote/admin-client.js';
import { revokeKeys } from '../remote/credentials.command.js';
import { identifyKeys } from '../remote/identify-keys.js';
import { announceIfSlow, CommandFailedError, type Confirm } from '../terminal.js';
import { checkNodes, checkSettings, findUnreadyService } from './doctor-calls.js';
import { checkKeys, checkPairsForUsers, listWarnings } from './doctor-keys.js';
import {
  createEnvFolder,
  createTokenRules,
  DEFAULT_TOKENS,
  isSetIn,
  listPublicSettings,
  type ServiceFile,
  type TokenRules,
} from './environment-files.js';
import { broken, type PlatformFinding } from './finding.js';
import {
  addRotations,
  carryOutPlan,
  leaveLostKeys,
  makePlan,
  type CredentialStore,
  type LiveCredentials,
  type Plan,
  type PlannedService,
  type PlanReport,
} from './plan.js';
import { toCredentialVariables } from '../../foundation/common/names.js';
import { type PlatformMap } from './platform-map.js';
import { openDocuments, type Documents } from './secret-documents.js';

const PATH = '/app-credentials';
const SUBSCRIPTIONS = '/event-subscriptions';
const LOST_ADVICE = 'Run this again. If the change was made, the new key is lost: --rotate-lost makes another one.';
/** The service publishes its metadata only when its issuer is an https URL (RFC 8414). */
const issuer = z.union([z.literal(DEFAULT_TOKENS.issuer), z.url({ protocol: /^https$/ }).regex(/^[\w.:/~%[\]-]+$/)]);
const metadata = z.object({ issuer }).optional();
const identified = z.object({ app_id: z.string().refine(isId) });
const subscribed = z.object({ items: z.array(z.object({ service: z.string(), types: z.array(z.enum(EVENT_TYPES)) })) });
const newKey = identified.extend({ app_key: z.string().refine(isAppKey) });

interface ApplyRequest {
  readonly map: PlatformMap;
  readonly documents: Documents;
  /** The number of credentials that the operator expects to revoke; true asks for it. Undefined revokes none. */
  readonly prune: number | true | undefined;
  /** Issues new keys for the calls of this service, or of `all`; the old keys stay valid during the overlap. */
  readonly rotate: string | undefined;
  /** Issues new keys where this service, or any of `all`, has a key that cannot be read. */
  readonly rotateLost: string | undefined;
  readonly isPlan: boolean;
  readonly yes: boolean;
  /** The admin key of this call: `apply` refuses to work with the root key. Undefined accepts any key. */
  readonly keyToCheck: string | undefined;
  /** Shows the plan to the operator, and rejects when the operator does not confirm it. */
  readonly confirm: (plan: ApplyReport) => ReturnType<Confirm>;
}

export interface ApplyReport extends PlanReport {
  readonly summary: Readonly<Record<'issued' | 'scoped' | 'rotated' | 'revoked' | 'left_alone', number>>;
}

export async function apply(client: AdminClient, request: ApplyRequest): Promise<ApplyReport> {
  const { map, documents, isPlan, prune, rotate, rotateLost } = request;
  if (request.keyToCheck !== undefined) await refuseRootKey(client, request.keyToCheck);
  const rules = await readPublishedRules(client, map);
  const live = await readLive(client, openDocuments(map, documents));
  // A plan is carried out once, because that changes its documents in memory.
  const plan = (): Plan => {
    const made = makePlan(map, openDocuments(map, documents), live, (service) => listPublicSettings(service, rules));
    const left = leaveLostKeys(made, rotateLost);
    return rotate === undefined ? left : addRotations(left, rotate);
  };
  const first = plan();
  refusePartialDocuments(first);
  const options = { program: 'apply', prune: prune !== undefined, warnings: listWarnings(first, rules) } as const;
  const intended = addSummary(await carryOutPlan(first, options));
  if (isPlan) return intended;
  if (!hasChanges(intended)) {
    // The reader of a stream needs every document, including those that did not change.
    if (documents.folder === undefined) await carryOutPlan(plan(), options, createStore(client));
    return { ...intended, dry_run: false };
  }
  const { revoked } = intended.summary;
  if (revoked > 0 && (prune === true ? request.yes : prune !== revoked))
    throw new CommandFailedError(
      `This revokes ${revoked} permanently: ${intended.strays.map(formatPair).join(', ')}. To confirm the count: --prune ${revoked}. Nothing was changed.`,
      'confirmation_required',
    );
  await request.confirm(intended);
  if (documents.folder !== undefined) createEnvFolder(documents.folder);
  return addSummary(await carryOutPlan(plan(), options, createStore(client)));
}

function isAppKey(text: string): boolean {
  const [found] = findKeys(text);
  return found?.kind === 'app' && found.key === text;
}

/** Least privilege: the root key has every scope, and no call revokes it. */
async function refuseRootKey(client: AdminClient, key: string): Promise<void> {
  const digest = toDigest(key);
  if ((await identifyKeys(client, [digest])).items.get(digest)?.kind !== 'root') return;
  throw new CommandFailedError(
    'ADMIN_API_KEY is the key of the service itself. Issue one for an operator (platform-auth operators issue ci --scopes apps), or add --root-key.',
    'root_key',
  );
}

export function hasChanges({ summary, files, subscriptions }: ApplyReport): boolean {
  const { issued, scoped, rotated, revoked } = summary;
  return issued + scoped + rotated + revoked + subscriptions.length > 0 || files.some(({ changed }) => changed);
}

function addSummary(report: PlanReport): ApplyReport {
  const { pairs, strays } = report;
  const count = (action: string) => pairs.filter((pair) => pair.action === action).length;
  const untouched = pairs.filter((pair) => /^(keep|lost|old)$/.test(pair.action) && !changesRights(pair));
  const revoked = strays.filter((stray) => stray.revoked).length;
  const summary = {
    issued: count('issue'),
    scoped: pairs.filter(changesRights).length,
    rotated: count('rotate'),
    revoked,
    left_alone: untouched.length + strays.length - revoked,
  };
  return { ...report, summary };
}

/** A document without its lost keys would replace the document in use, which has them. */
function refusePartialDocuments({ services }: Plan): void {
  for (const { service, pairs } of services) {
    const lost = pairs.filter(({ action }) => action === 'lost');
    if (lost.length === 0 || !pairs.some(({ action }) => action === 'issue' || action === 'rotate')) continue;
    throw new CommandFailedError(
      `${service.name} gets a new key, and its other keys cannot be read again: ${lost.map(formatPair).join(', ')}. Nothing was changed.\n` +
        `Give the documents in use with --output or --current, or make new keys with --rotate-lost ${service.name}.`,
      'key_unreadable',
    );
  }
}

/** Reads the live credentials. Their keys are compared by digest, because validating a key would count as a use of it. */
async function readLive(client: AdminClient, files: ReadonlyMap<string, ServiceFile>): Promise<LiveCredentials> {
  const items = await client.list<AppCredentialResponse>(PATH, { live: 'true' });
  client.requireShape(z.array(identified), items);
  const held = items.flatMap(({ caller, target }) => files.get(caller)?.get(toCredentialVariables(target).key) ?? []);
  const { items: known } = await identifyKeys(client, held.map(toDigest));
  const findKeyState: LiveCredentials['findKeyState'] = ({ app_id }, key) => {
    const found = known.get(toDigest(key));
    if (found?.id !== app_id || !found.live) return undefined;
    return found.current ? 'current' : 'previous';
  };
  const { items: subscriptions } = client.requireShape(subscribed, await client.get(SUBSCRIPTIONS));
  return { items, subscriptions: new Map(subscriptions.map((each) => [each.service, each.types])), findKeyState };
}

/**
 * Checks the running service against the map, without the database and without using a key.
 * @param folder into which `apply` wrote environment files; undefined checks no file
 */
export async function diagnoseOverHttp(
  client: AdminClient,
  map: PlatformMap,
  folder: string | undefined,
): Promise<PlatformFinding[]> {
  const away = await findUnreadyService(client.url);
  if (away) return [away];
  const format = folder === undefined ? 'json' : 'env';
  const documents = openDocuments(map, { format, folder, current: undefined });
  const live = await announceIfSlow('Reading the credentials', readLive(client, documents));
  const rules = await readPublishedRules(client, map);
  const made = makePlan(map, documents, live, (service) => listPublicSettings(service, rules));
  const plan = leaveLostKeys(made, undefined);
  const missing = plan.services.flatMap(({ pairs }) => pairs.filter(({ action }) => action === 'issue'));
  return [
    ...missing.map((pair) =>
      broken(formatPair(pair), 'It has no live credential.', `Run apply, then restart ${pair.caller}.`),
    ),
    ...(folder === undefined ? [] : plan.services.flatMap(checkAgainstService)),
    ...(await checkNodes(client, plan)),
    ...(await checkSettings(client)),
    ...checkPairsForUsers(plan, rules),
    ...checkKeys(plan, live.items, new Date(), 'apply'),
  ];
}

function checkAgainstService({ service: { name }, file, settings, pairs }: PlannedService): PlatformFinding[] {
  const where = `${name}.env`;
  const [apply, restart] = [`Run apply with --output ${dirname(file.path)}`, `then restart ${name}.`];
  const entries = Object.entries(settings);
  const unset = entries.filter(([variable]) => !isSetIn(file, variable)).map(([variable]) => variable);
  const other = entries.filter(([variable, value]) => isSetIn(file, variable) && file.get(variable) !== value);
  return [
    ...pairs
      .filter(({ action }) => action === 'lost')
      .map((pair) => {
        const what = `It does not hold the current key of ${formatPair(pair)}.`;
        return broken(where, what, `${apply} --rotate-lost ${name}, ${restart}`);
      }),
    ...(unset.length > 0 ? [broken(where, `Not set: ${unset.join(', ')}.`, `${apply}, ${restart}`)] : []),
    ...other.map(([variable, value]) =>
      broken(where, `${variable} is not ${value}, as the map or the service says.`, `${apply}, ${restart}`),
    ),
  ];
}

function toDigest(key: string): string {
  return computeDigest(key).toString('hex');
}

/** Reads how the service signs access tokens. The service does not publish the audience, so `apply` writes none. */
async function readPublishedRules(client: AdminClient, map: PlatformMap): Promise<TokenRules> {
  const keys = await client.listSigningKeys();
  const published = await client.getOpen('/.well-known/oauth-authorization-server');
  const { issuer = DEFAULT_TOKENS.issuer } = client.requireShape(metadata, published) ?? {};
  return createTokenRules(map, { ...DEFAULT_TOKENS, issuer, algorithm: keys.length > 0 ? 'ES256' : 'HS256' });
}

function createStore(client: AdminClient): CredentialStore {
  return {
    issue: async (pair) => {
      const { app_id, app_key } = client.requireShape(newKey, await client.post(PATH, pair, LOST_ADVICE));
      return { id: app_id, key: app_key };
    },
    update: (id, change) => client.patch(`${PATH}/${id}`, change),
    rotate: async ({ app_id, rotated_at }) => {
      const answer = await client.post(`${PATH}/${app_id}/rotate`, { if_rotated_at: rotated_at }, LOST_ADVICE);
      return client.requireShape(newKey, answer).app_key;
    },
    revoke: (ids) => revokeKeys(client, PATH, ids),
    subscribe: (service, types) => client.put(joinPath(SUBSCRIPTIONS, service), { types }),
  };
}
