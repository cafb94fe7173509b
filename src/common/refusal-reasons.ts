import { SCOPES } from './scopes.js';
import type { SecurityEvent } from './security-event.js';

const KEY_REASONS = ['unknown', 'wrong_key', 'revoked', 'expired'] as const;
/** Why a key is refused by its row. */
export type KeyRefusalReason = (typeof KEY_REASONS)[number];
/** Of a request that a gateway asks about. */
const GATEWAY_REASONS = ['duplicate_header', 'unreadable'] as const;

/**
 * Every reason of every refusal, by the name of its security event. Metrics start a series at 0 for each: a counter
 * whose first value is 1 has no increase, and an alert on the first refusal stays silent.
 */
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
