/**
 * The kinds of keys, and what the storeys call each: its table, routes, prefix and events. Shared code of the service
 * reads this record and names no kind; `dev` has one fixed key of each. The rules of a kind stand in its own room
 * (`KeyKind` in domain/keys/key-record.ts); CONTRIBUTING.md has the recipe for a further one.
 */
import type { OperatorScope } from './names.js';

/** The events of the audit log that keys have in common, of every kind. */
export const KEY_EVENT_NAMES = [
  'node.first_used',
  'node.validation.failed',
  'admin.node.issued',
  'admin.node.updated',
  'admin.node.rotated',
  'admin.node.revoked',
  'app.first_used',
  'app.validation.failed',
  'admin.app_credential.issued',
  'admin.app_credential.updated',
  'admin.app_credential.rotated',
  'admin.app_credential.rotation_finished',
  'admin.app_credential.revoked',
  'operator.first_used',
  'admin.operator.issued',
  'admin.operator.updated',
  'admin.operator.rotated',
  'admin.operator.rotation_finished',
  'admin.operator.revoked',
] as const;
type KeyEventName = (typeof KEY_EVENT_NAMES)[number];

const KEY_REASONS = ['unknown', 'wrong_key', 'revoked', 'expired'] as const;
export type KeyRefusalReason = (typeof KEY_REASONS)[number];

/** Reasons to refuse a gateway's question before its credential is verified. */
export const GATEWAY_REASONS = ['duplicate_header', 'unreadable'] as const;

/** The reasons of {@link REFUSAL_REASONS} for the kinds whose refusals are counted for each key. */
export const KEY_REFUSAL_REASONS = {
  'app.validation.failed': [
    'not_accepted',
    'no_id',
    'malformed',
    ...KEY_REASONS,
    'other_target',
    'missing_scope',
    ...GATEWAY_REASONS,
  ],
  'node.validation.failed': ['not_accepted', 'malformed', ...KEY_REASONS, 'target', ...GATEWAY_REASONS],
} as const satisfies Partial<Record<KeyEventName, readonly string[]>>;

interface KeyWords {
  readonly table: string;
  /** The door at which the keys are presented, which the audit log names as the actor of a use. */
  readonly door: string;
  /** The heading of the list in the console. */
  readonly title: string;
  /** Of the routes of operators, below `/api/v0/admin`, and of the pages below `/console`. */
  readonly path: `/${string}`;
  readonly scope: OperatorScope;
  /** Lets secret scanners recognise a leaked key. */
  readonly keyPrefix: `pa_${string}_`;
  readonly auditPrefix: string;
  readonly firstUseEvent: KeyEventName;
  /** Undefined: the door itself counts refusals, by network. */
  readonly refusalEvent: keyof typeof KEY_REFUSAL_REASONS | undefined;
  /**
   * The kind of changes that evict keys from the cache (packages/lease/src/key-cache.ts), and for which a revocation
   * waits. Undefined: each call reads the row, so a change is effective at the next call.
   */
  readonly cachedAs: string | undefined;
  /** Tells operators whose key it is. */
  toOwner(holder: KeyHolder): string;
}

/** The fields of all kinds that name the holder of a key. */
export type KeyHolder = Readonly<Partial<Record<'caller' | 'name' | 'room' | 'target', string>>>;

export const KEY_KINDS = {
  node: {
    table: 'nodes',
    door: 'node',
    title: 'Nodes',
    path: '/nodes',
    scope: 'nodes',
    keyPrefix: 'pa_node_',
    auditPrefix: 'admin.node',
    firstUseEvent: 'node.first_used',
    refusalEvent: 'node.validation.failed',
    cachedAs: 'node',
    toOwner: ({ room, name }) => [room, name].join('/'),
  },
  app: {
    table: 'app_credentials',
    door: 'app',
    title: 'App credentials',
    path: '/app-credentials',
    scope: 'apps',
    keyPrefix: 'pa_app_',
    auditPrefix: 'admin.app_credential',
    firstUseEvent: 'app.first_used',
    refusalEvent: 'app.validation.failed',
    cachedAs: 'app',
    toOwner: ({ caller, target }) => [caller, target].join(' → '),
  },
  operator: {
    table: 'operators',
    door: 'admin',
    title: 'Operators',
    path: '/operators',
    scope: 'operators',
    keyPrefix: 'pa_admin_',
    auditPrefix: 'admin.operator',
    firstUseEvent: 'operator.first_used',
    refusalEvent: undefined,
    cachedAs: undefined,
    toOwner: ({ name = '' }) => name,
  },
} as const satisfies Record<string, KeyWords>;

export type KeyKindName = keyof typeof KEY_KINDS;
export const KEY_KIND_NAMES = Object.keys(KEY_KINDS) as KeyKindName[];

export function isKeyKind(text: string): text is KeyKindName {
  return KEY_KIND_NAMES.some((name) => name === text);
}

/** The kinds of keys that replicas and verifiers remember. */
export const CACHED_KIND_NAMES = KEY_KIND_NAMES.filter((name) => KEY_KINDS[name].cachedAs !== undefined);
