import type { ChangedKind } from '../../../packages/lease/src/change-feed.js';
import type { Renewal } from '../../../packages/lease/src/lease.js';
import type { ServiceAnswer } from './transport.js';
import type { Door } from './principals.js';

const KINDS: ReadonlySet<string> = new Set<ChangedKind>(['node', 'app', 'session', 'user', 'signing_key']);
/** The 401s that are verdicts at each door. Any other 401 is about this verifier, or comes from another program. */
const VERDICTS: Readonly<Record<Door, readonly string[]>> = {
  app: ['invalid_app_credentials'],
  node: ['invalid_node_credentials'],
  user: ['invalid_access_token', 'missing_access_token'],
};
/** These 400s are verdicts, because they are about the presented credential. */
const UNREADABLE_CREDENTIAL = ['malformed_request', 'duplicate_header'];
export const MAX_REMEMBER_MS = 60_000;
const MAX_DURATION_MS = 1_000_000_000;
/** A code of the service's catalogue. Nothing else of an answer is logged, because a server may echo a credential. */
const CODE = /^(?=.{1,60}$)[a-z]+(?:_[a-z]+)*$/;

const WRONG_KEY = 'AUTH_APP_ID and AUTH_APP_KEY: the key was rotated or revoked. Run platform-auth apply, and restart';
const WRONG_ADDRESS = 'AUTH_URL must be the address of platform-auth, for services (INTERNAL_PORT), without a path';

type Fields = Readonly<Record<string, unknown>>;

/** `unknown`: the service could not decide. `misconfigured`: it did not understand the question, or is another program. */
export type Judgement =
  | {
      readonly verdict: 'yes';
      readonly body: Fields;
      readonly freshForMs: number;
      readonly rememberForMs: number;
      readonly isPreviousKey: boolean;
    }
  | { readonly verdict: 'no' }
  | { readonly verdict: 'unknown' }
  | { readonly verdict: 'misconfigured'; readonly detail: string };

export function judge(door: Door, answer: ServiceAnswer): Judgement {
  const { status } = answer;
  const body = parseObject(answer.body);
  const code = toText(body?.code);
  if (status === 401 && VERDICTS[door].includes(code)) return { verdict: 'no' };
  if (status === 431 || (status === 400 && UNREADABLE_CREDENTIAL.includes(code))) return { verdict: 'no' };
  if (isUnavailable(status)) return { verdict: 'unknown' };
  if (status !== 200) return createMisconfigured(answer, toLoggable(code));
  const freshForMs = toWholeNumber(answer.headers['x-platform-fresh-for-ms']);
  if (body?.valid !== true) return createMisconfigured(answer, 'not the body of a validation');
  // Zero is valid: the service decided, but grants no lease at the moment.
  if (freshForMs === undefined) return createMisconfigured(answer, 'no X-Platform-Fresh-For-Ms');
  const isPreviousKey = answer.headers['x-platform-key'] === 'previous';
  return { verdict: 'yes', body, freshForMs, rememberForMs: readRememberForMs(answer), isPreviousKey };
}

/** Whether the service refused this verifier's own key. Not for questions about an app, whose refusal has the same code. */
export function isOwnKeyRefused({ status, body }: ServiceAnswer): boolean {
  return status === 401 && parseObject(body)?.code === VERDICTS.app[0];
}

/** Whether the service could not decide, so that its answer says nothing about the credential. */
export function isUnavailable(status: number): boolean {
  return status === 429 || status >= 500;
}

/** @returns 0 when the yes must not be remembered */
function readRememberForMs({ headers }: ServiceAnswer): number {
  if (headers['x-platform-remember'] !== 'yes') return 0;
  return Math.min(MAX_REMEMBER_MS, (toWholeNumber(headers['x-platform-expires-in']) ?? 0) * 1_000);
}

export type PollAnswer =
  | { readonly kind: 'renewal'; readonly renewal: Renewal & { readonly freshForMs: number }; readonly leaseMs: number }
  | { readonly kind: 'unknown' }
  | { readonly kind: 'misconfigured'; readonly detail: string };

export function readPollAnswer(answer: ServiceAnswer): PollAnswer {
  const body = parseObject(answer.body);
  if (isUnavailable(answer.status)) return { kind: 'unknown' };
  if (answer.status !== 200) {
    return { kind: 'misconfigured', detail: describeAnswer(answer) };
  }
  const { cursor, reset, lease_ms: leaseMs, fresh_for_ms: freshForMs, changes } = body ?? {};
  const isReadable = typeof cursor === 'string' && typeof reset === 'boolean' && Array.isArray(changes);
  if (!isReadable || !isDuration(leaseMs) || !isDuration(freshForMs) || !changes.every(isChange)) {
    return { kind: 'misconfigured', detail: describeAnswer(answer, 'not an answer to a poll') };
  }
  const known = changes
    .filter(({ kind }) => KINDS.has(kind))
    .map(({ kind, id }) => ({ kind, id: id.toLowerCase() })) as unknown as Renewal['changes'];
  return { kind: 'renewal', renewal: { cursor, reset, freshForMs, changes: known }, leaseMs };
}

export function parseObject(text: string): Fields | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : undefined;
  } catch {
    return undefined;
  }
}

function createMisconfigured(answer: ServiceAnswer, detail: string): Judgement {
  return { verdict: 'misconfigured', detail: describeAnswer(answer, detail) };
}

/** @returns the status and the code of an answer that was not expected */
export function describeAnswer(
  { status, body }: ServiceAnswer,
  detail = toLoggable(toText(parseObject(body)?.code)),
): string {
  const advice = status === 404 ? WRONG_ADDRESS : detail === 'invalid_app_credentials' && WRONG_KEY;
  return `${status}: ${detail}${advice ? ` (${advice})` : ''}`;
}

function toLoggable(code: string): string {
  return CODE.test(code) ? code : 'not a known problem';
}

function isChange(value: unknown): value is { kind: string; id: string } {
  if (typeof value !== 'object' || value === null || !('kind' in value) || !('id' in value)) return false;
  return typeof value.kind === 'string' && typeof value.id === 'string';
}

function isDuration(value: unknown): value is number {
  return typeof value === 'number' && value >= 0 && value <= MAX_DURATION_MS;
}

function toText(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function toWholeNumber(text: string | undefined): number | undefined {
  return text !== undefined && /^\d{1,9}$/.test(text) ? Number(text) : undefined;
}
