import { Ajv, type ValidateFunction } from 'ajv';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { UserDemands } from '../src/delegation.js';
import type { Door } from '../src/principals.js';
import { fromRoot } from '../../../test/support/from-root.js';

const FOLDER = fromRoot('clients/conformance');

export type Path = 'changes' | 'validate-app' | 'validate-node' | 'validate-user' | 'jwks' | 'token' | 'events';
export type Pairs = readonly (readonly [string, string])[];
export type Verdict = 'accepted' | 'refused' | 'unavailable';
export type Count = number | readonly [number, number];

export interface Answer {
  readonly like?: string;
  readonly after_ms?: number;
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string | null>>;
  readonly body?: unknown;
  readonly replace_body?: unknown;
  readonly text?: string;
  readonly fail?: 'refused' | 'broken' | 'connect_timeout' | 'silence';
}

export interface Credential {
  readonly door: Door;
  readonly headers: Pairs;
  readonly secrets?: readonly string[];
}

export interface Expectation {
  readonly verdict: Verdict;
  readonly status?: number;
  readonly code?: string;
  readonly principal?: Readonly<Record<string, unknown>>;
  readonly not_before?: number;
  readonly by?: number;
}

type Service = Partial<Record<Path, readonly (string | Answer)[]>>;

export interface Step {
  readonly at: number;
  readonly present?: string | Credential;
  readonly with?: Pairs;
  readonly member?: { readonly household: unknown; readonly role?: 'admin' };
  readonly demands?: UserDemands;
  readonly token_for?: { readonly target: string; readonly scope?: string };
  readonly expect?: Verdict | Expectation;
  readonly service?: Service;
  readonly key_file?: string | null;
  readonly wall_jump_ms?: number;
  readonly pause_ms?: number;
  readonly suspend_ms?: number;
  readonly asked?: Partial<Record<Path, Count>>;
  readonly last?: {
    readonly path: Path;
    readonly headers?: Readonly<Record<string, string>>;
    readonly without_headers?: readonly string[];
    readonly body?: Readonly<Record<string, unknown>>;
    readonly without_body_fields?: readonly string[];
    readonly used?: readonly {
      readonly kind: string;
      readonly id: string;
      readonly ago_ms: Count;
      readonly previous?: true;
    }[];
  };
  readonly reported?: { readonly kind: string; readonly id: string; readonly times: number };
  readonly logged?: Readonly<Record<string, number>>;
  readonly causes?: readonly string[];
}

export interface Scenario {
  readonly name: string;
  readonly verifier?: {
    readonly secret_key?: string | null;
    readonly secret_key_previous?: string;
    readonly jwks_url?: string | null;
    readonly outage_grace_seconds?: number;
    readonly max_questions?: number;
    readonly issuer?: string;
    readonly audience?: string;
    readonly key_file?: string;
  };
  readonly service?: Service;
  readonly steps: readonly Step[];
}

/** An answer of the service with events, by their cursors, or with a reset. */
interface EventsAnswer extends Answer {
  readonly events?: readonly string[];
  readonly more?: boolean;
  readonly reset?: string;
}

export interface EventScenario {
  readonly name: string;
  readonly answers: readonly Answer[];
  /** How often the consumer fails at an event or a reset. */
  readonly fails?: Readonly<Record<string, number>>;
  readonly until_ms: number;
  readonly told: readonly string[];
  readonly polls: readonly { readonly at: readonly [number, number]; readonly after?: string }[];
}

/** What the service answers to a poll that waited. */
export const NOTHING_HAPPENS: Answer = { after_ms: 20_000, body: { events: [], more: false, reset: false } };

interface Credentials {
  readonly names: Readonly<Record<string, string>>;
  readonly credentials: Readonly<Record<string, Credential>>;
  readonly jwks: unknown;
  readonly private_jwks: unknown;
}

const read = (path: string): unknown => JSON.parse(readFileSync(join(FOLDER, path), 'utf8'));

interface RestrictedApp {
  readonly scopes: readonly string[] | null;
  readonly asked: string | null;
  readonly accepted: boolean;
}
export const { apps: restrictedApps } = read('restrictions.json') as { readonly apps: readonly RestrictedApp[] };

const data = read('credentials.json') as Credentials;
export const names = data.names;
export const credentials = data.credentials;
export const answers = fill(read('answers.json') as Record<string, Answer>);

/** Secrets that must never be printed. */
export const secrets = [
  ...Object.values(credentials).flatMap((credential) => credential.secrets ?? []),
  names.own_app_key!,
  names.next_own_app_key!,
  names.secret_key!,
  names.ocr_token!,
];

export function readScenarios(): { readonly rule: string; readonly scenarios: readonly Scenario[] }[] {
  const validate: ValidateFunction = new Ajv({ allowUnionTypes: true }).compile(read('schema.json') as object);
  return readdirSync(join(FOLDER, 'scenarios')).map((file) => {
    const content = read(`scenarios/${file}`) as { rule: string; scenarios: Scenario[] };
    if (!validate(content)) throw new Error(`${file}: ${JSON.stringify(validate.errors)}`);
    return fill(content);
  });
}

export function readEventScenarios(): EventScenario[] {
  const { scenarios } = read('events.json') as { scenarios: (EventScenario & { answers: EventsAnswer[] })[] };
  return scenarios.map((scenario) => ({
    ...scenario,
    answers: [...scenario.answers.map(toEventsAnswer), NOTHING_HAPPENS],
  }));
}

function toEventsAnswer({ events, more = false, reset, ...answer }: EventsAnswer): Answer {
  if (reset !== undefined) return { ...answer, body: { events: [], more: false, reset: true, cursor: reset } };
  if (!events) return answer;
  const told = {
    type: 'user.deleted',
    time: '2026-01-01T00:00:00.000Z',
    subject: { kind: 'user', id: 'alice' },
    data: {},
  };
  return { ...answer, body: { events: events.map((cursor) => ({ id: cursor, ...told, cursor })), more, reset: false } };
}

/** Replaces `${name}` and `a*5000` in every string. */
function fill<Value>(value: Value): Value {
  if (typeof value === 'string') return fillText(value) as Value;
  if (Array.isArray(value)) return value.map(fill) as Value;
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, field]) => [name, fill(field)])) as Value;
}

function fillText(text: string): unknown {
  if (text === '${jwks}') return data.jwks;
  if (text === '${private_jwks}') return data.private_jwks;
  return text
    .replace(/\$\{(\w+)\}/g, (_match, name: string) => {
      const value = names[name];
      if (value === undefined) throw new Error(`credentials.json lacks the name ${name}`);
      return value;
    })
    .replace('a*5000', 'a'.repeat(5_000));
}
