import { GATEWAY_REASONS, KEY_EVENT_NAMES, KEY_REFUSAL_REASONS } from './key-kinds.js';
import { OPERATOR_SCOPES } from './names.js';

/** The security events that the audit log contains, those of keys in key-kinds.ts. */
export const AUDIT_EVENT_NAMES = [
  'user.registered',
  'user.login.succeeded',
  'user.login.failed',
  'user.password.changed',
  'user.deleted',
  'user.deletion.acknowledged',
  'user.password.reset',
  'user.email.verified',
  'user.email.change_requested',
  'user.email.changed',
  'user.mail.sent',
  'user.mail.failed',
  'user.second_factor.failed',
  'user.totp.started',
  'user.totp.enrolled',
  'user.totp.removed',
  'user.recovery_codes.replaced',
  'user.recovery_code.used',
  'user.passkey.added',
  'user.passkey.renamed',
  'user.passkey.removed',
  'user.access.refused',
  'session.refresh.reused',
  'session.refresh.repeated_elsewhere',
  'session.ended',
  'signing_key.retired',
  'signing_key.revoked',
  'token.exchange.first_used',
  'token.exchange.refused',
  'node.enrolled',
  'node.rotated',
  'node.enrolment.reused',
  'admin.key.refused',
  'admin.scope.refused',
  'admin.enrolment.issued',
  'admin.enrolment.cancelled',
  'operator.passkey.added',
  'operator.passkey.removed',
  'admin.console.logged_in',
  'admin.console.logged_out',
  'admin.console.refused',
  'admin.user.created',
  'admin.user.updated',
  'admin.user.deleted',
  'admin.user.sessions_revoked',
  'admin.user.password_reset_issued',
  'admin.user.factors_removed',
  'admin.user.throttles_removed',
  'admin.event_subscription.set',
  'admin.event_subscription.removed',
  'admin.event_subscription.rewound',
  'admin.event_subscription.skipped',
  'admin.event_subscription.reset',
  'household.created',
  'household.renamed',
  'household.deleted',
  'household.member.added',
  'household.member.changed',
  'household.member.removed',
  'household.member.left',
  'household.invitation.issued',
  'household.invitation.cancelled',
  'household.invitation.used',
  'users.import_started',
  'users.imported',
  'users.exported',
  'audit.finding.acknowledged',
  ...KEY_EVENT_NAMES,
] as const;
export type AuditEventName = (typeof AUDIT_EVENT_NAMES)[number];

/** One pattern for each beginning of an event's name: `user.*`, `user.login.*` and so on. */
export const AUDIT_EVENT_PATTERNS = [
  ...new Set(
    AUDIT_EVENT_NAMES.flatMap((name) => [...name.matchAll(/\./g)].map(({ index }) => `${name.slice(0, index)}.*`)),
  ),
];

/** @param filter the name or the pattern of events @returns an empty list when it is neither */
export function listMatchingEvents(filter: string): AuditEventName[] {
  const isPattern = AUDIT_EVENT_PATTERNS.includes(filter);
  return AUDIT_EVENT_NAMES.filter((name) => name === filter || (isPattern && name.startsWith(filter.slice(0, -1))));
}

/** The security events that are written only to the service log. */
export const LOG_EVENT_NAMES = [
  'user.login.throttled',
  'user.login.challenged',
  'user.second_factor.throttled',
  'user.registration.throttled',
  'session.refresh.throttled',
  'user.password.refused',
  'user.link.refused',
  'user.link.throttled',
  'user.mail.requested',
  'user.mail.throttled',
  'user.token.refused',
  'session.refreshed',
  'session.refresh.refused',
  'node.enrolment.refused',
  'node.enrolment.throttled',
  'node.rotation.throttled',
  'household.action.throttled',
  'household.invitation.refused',
  'household.invitation.throttled',
  'admin.key.throttled',
] as const;

/** The names of all security events (ASVS 16.3). They are stable: alerts are written against them. */
export type SecurityEvent = AuditEventName | (typeof LOG_EVENT_NAMES)[number];

/** Events that are logged at level warn, so that LOG_LEVEL=warn keeps them. */
const WARNINGS = /\.(failed|refused|reused|repeated_elsewhere|throttled)$/;

export function isWarning(event: SecurityEvent): boolean {
  return WARNINGS.test(event);
}

/**
 * The metrics start one series at 0 for each reason: a counter that begins at 1 has no increase, so no alert would
 * notice the first refusal.
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
    // Of a delegated token: not its audience asked, or a pair of its chain has ended or is not for users any more.
    'other_audience',
    'pair_ended',
    ...GATEWAY_REASONS,
  ],
  ...KEY_REFUSAL_REASONS,
  // `cancelled`: an operator cancelled the enrolment. A used code is the event `node.enrolment.reused`.
  'node.enrolment.refused': ['unknown', 'expired', 'cancelled'],
  'node.enrolment.reused': ['reused'],
  'token.exchange.refused': ['subject_token', 'target', 'scope'],
  // `wrong_passkey`: the console asked for one beside a valid key.
  'admin.key.refused': ['not_accepted', 'wrong_key', 'revoked', 'expired', 'wrong_passkey'],
  // The scope that the route needs; `grant`: an operator tried to grant a scope that it does not have.
  'admin.scope.refused': [...OPERATOR_SCOPES, 'grant'],
  // A page of another origin sent the form, or none of this session did (CSRF).
  'admin.console.refused': ['origin', 'form'],
  // A user asked for the account of another one.
  'user.access.refused': ['other_account'],
  // `changed_meanwhile`: the user was disabled, deleted or given another password while the password was verified.
  'user.login.failed': ['unknown', 'wrong_password', 'disabled', 'changed_meanwhile', 'email_not_verified'],
  'user.password.refused': ['wrong_password', 'changed_meanwhile'],
  'user.link.refused': ['unknown', 'expired', 'void'],
  // The password was right, so the login continues with a second factor, or with the enrolment of the first one.
  'user.login.challenged': ['second_factor', 'enrolment'],
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
    // The user was disabled, deleted, or given another password or other factors while the proof was verified.
    'changed_meanwhile',
    'email_not_verified',
  ],
  'session.refresh.refused': ['malformed', 'unknown', 'forged', 'no_second_factor'],
  'session.refresh.reused': ['reused'],
  // The reason of a throttled call is the name of the exhausted bucket.
  'user.login.throttled': ['login-account-address', 'login-account', 'login-address', 'hashing-busy'],
  'user.second_factor.throttled': ['second-factor-account', 'second-factor-week', 'second-factor-address'],
  'user.registration.throttled': ['registration'],
  'session.refresh.throttled': ['refresh'],
  'user.mail.throttled': ['mail', 'mail-account'],
  'user.link.throttled': ['link'],
  'node.enrolment.throttled': ['enrolment-address', 'enrolment'],
  'node.rotation.throttled': ['node-rotation'],
  'household.action.throttled': ['household-action'],
  // `used`: another person used it, or the person who did is no longer a member.
  'household.invitation.refused': ['unknown', 'expired', 'cancelled', 'used'],
  'household.invitation.throttled': ['invitation-account', 'invitation-address'],
  'admin.key.throttled': ['admin-key', 'console-login'],
} as const satisfies Partial<Record<SecurityEvent, readonly string[]>>;

export type RefusalEventName = keyof typeof REFUSAL_REASONS;

export type RefusalReason<Event extends RefusalEventName> = (typeof REFUSAL_REASONS)[Event][number];

export const REFUSAL_EVENT_NAMES = Object.keys(REFUSAL_REASONS) as RefusalEventName[];
