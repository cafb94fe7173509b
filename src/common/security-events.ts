import { SCOPES } from './names.js';

/** The names of all security events (ASVS 16.3). They are stable: alerts are written against them. */
export type SecurityEvent =
  | `user.${'registered' | 'deleted'}`
  | `user.login.${'succeeded' | 'failed' | 'challenged'}`
  | 'user.second_factor.failed'
  | `user.totp.${'started' | 'enrolled' | 'removed'}`
  | `user.recovery_code${'s.replaced' | '.used'}`
  | `user.passkey.${'added' | 'renamed' | 'removed'}`
  | `user.password.${'changed' | 'refused' | 'reset'}`
  | `user.email.${'verified' | 'change_requested' | 'changed'}`
  | `user.mail.${'requested' | 'sent' | 'failed'}`
  | `user.${'link' | 'token'}.refused`
  | `user.${'login' | 'second_factor' | 'registration' | 'link' | 'mail'}.throttled`
  | `session.${'refreshed' | 'ended'}`
  | `session.refresh.${'refused' | 'reused' | 'repeated_elsewhere' | 'throttled'}`
  | `signing_key.${'retired' | 'revoked'}`
  | `${'app' | 'node'}.validation.failed`
  | `${'app' | 'node' | 'operator'}.first_used`
  | `admin.key.${'refused' | 'throttled'}`
  | 'admin.scope.refused'
  | `admin.operator.${'added' | 'updated' | 'rotated' | 'revoked'}`
  | `admin.node.${'registered' | 'updated' | 'rotated' | 'revoked'}`
  | `admin.app_credential.${'minted' | 'rotated' | 'revoked'}`
  | `admin.user.${'created' | 'updated' | 'deleted'}`
  | `admin.user.${'sessions_revoked' | 'password_reset_issued' | 'factors_removed'}`
  | `users.${'import_started' | 'imported' | 'exported'}`;

/** These are logged at level warn, and so at LOG_LEVEL=warn too. */
const WARNINGS = /\.(failed|refused|reused|repeated_elsewhere|throttled)$/;

export function isWarning(event: SecurityEvent): boolean {
  return WARNINGS.test(event);
}

const KEY_REASONS = ['unknown', 'wrong_key', 'revoked', 'expired'] as const;
/** Why a key is refused by its row. */
export type KeyRefusalReason = (typeof KEY_REASONS)[number];
/** Why a request that a gateway asks about is refused before its key is read. */
const GATEWAY_REASONS = ['duplicate_header', 'unreadable'] as const;

/** Metrics start a series at 0 for each: a counter whose first value is 1 has no increase, and raises no alert. */
export const REFUSAL_REASONS = {
  'user.token.refused': [
    'no_credential',
    'not_accepted',
    'incomplete_claims',
    'expired',
    'impossible_times',
    'session_ended',
    'foreign_token',
    ...GATEWAY_REASONS,
  ],
  'app.validation.failed': ['not_accepted', 'no_id', 'malformed', ...KEY_REASONS, 'other_target', ...GATEWAY_REASONS],
  'node.validation.failed': ['not_accepted', 'malformed', ...KEY_REASONS, ...GATEWAY_REASONS],
  'admin.key.refused': ['not_accepted', 'wrong_key', 'revoked', 'expired'],
  // The scope of the route, or `grant`: the caller would give more than it has.
  'admin.scope.refused': [...SCOPES, 'grant'],
  // `changed_meanwhile`: disabled, deleted, or given another password while the old one was verified.
  'user.login.failed': ['unknown', 'wrong_password', 'disabled', 'changed_meanwhile', 'email_not_verified'],
  'user.password.refused': ['wrong_password', 'changed_meanwhile'],
  'user.link.refused': ['unknown', 'expired', 'void'],
  // The password was right.
  'user.login.challenged': ['second_factor'],
  'user.second_factor.failed': [
    'wrong_code',
    'repeated_code',
    'no_factor',
    'wrong_passkey',
    'unknown_passkey',
    'counter_not_increased',
    'backup_eligibility_changed',
    'challenge',
    'disabled',
    // Disabled, deleted, or given another password or other factors while the proof was verified.
    'changed_meanwhile',
    'email_not_verified',
  ],
  'session.refresh.refused': ['malformed', 'unknown', 'forged'],
  'session.refresh.reused': ['reused'],
  // The reason of a throttled call is the name of the exhausted budget.
  'user.login.throttled': ['login-account-address', 'login-account', 'login-address', 'hashing-busy'],
  'user.second_factor.throttled': ['second-factor-account', 'second-factor-week', 'second-factor-address'],
  'user.registration.throttled': ['registration'],
  'session.refresh.throttled': ['refresh'],
  'user.mail.throttled': ['mail', 'mail-account'],
  'user.link.throttled': ['link'],
  'admin.key.throttled': ['admin-key'],
} as const satisfies Partial<Record<SecurityEvent, readonly string[]>>;

/** A security event that refuses a request. */
export type RefusalEventName = keyof typeof REFUSAL_REASONS;

export type RefusalReason<Event extends RefusalEventName> = (typeof REFUSAL_REASONS)[Event][number];

export const REFUSAL_EVENT_NAMES = Object.keys(REFUSAL_REASONS) as RefusalEventName[];
