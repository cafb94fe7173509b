/**
 * Maps audit events to the events that services may read, of a few stable types. An event is a reason to read the state
 * and does not carry it, so its data has ids, names and reasons only. docs/events.md describes the types.
 */
import type { AuditEventName } from '../../foundation/common/security-events.js';
import type { StoredAuditEvent } from '../audit/audit-events.js';

export const EVENT_TYPES = [
  'user.registered',
  'user.deleted',
  'user.disabled',
  'user.enabled',
  'user.email_changed',
  'user.credentials_changed',
  'session.ended',
  'household.created',
  'household.deleted',
  'household.member_added',
  'household.member_changed',
  'household.member_removed',
  'node.registered',
  'node.changed',
  'node.revoked',
  'app.revoked',
] as const;
export type EventType = (typeof EVENT_TYPES)[number];

/** @param rowId id in the audit log, of which one row may be several events */
export function formatEventId(rowId: string, type: EventType): string {
  return `${rowId}:${type}`;
}

export const SUBJECT_KINDS = ['user', 'household', 'node', 'app'] as const;
export type SubjectKind = (typeof SUBJECT_KINDS)[number];

/** The subject of a session's end is its user, because that is whose data a service has. */
export function toSubjectKind(type: EventType): SubjectKind {
  return SUBJECT_KINDS.find((kind) => type.startsWith(`${kind}.`)) ?? 'user';
}

type AuditedEvent = Pick<StoredAuditEvent, 'event' | 'details' | 'count'>;

export interface PublishedEvent {
  readonly type: EventType;
  readonly data: Readonly<Record<string, unknown>>;
}

type Fields = Record<string, unknown>;
type ToEvents = (audited: AuditedEvent) => readonly PublishedEvent[];

const publish =
  (type: EventType, toData: (audited: AuditedEvent) => Fields = () => ({})): ToEvents =>
  (audited) => [{ type, data: toData(audited) }];

const combine =
  (...parts: readonly ToEvents[]): ToEvents =>
  (audited) =>
    parts.flatMap((toEvents) => toEvents(audited));

/** Publishes the sessions that a change of the account ended. */
const publishEndedSessions =
  (reason: string): ToEvents =>
  ({ details: { ended_sessions: count } }) =>
    typeof count === 'number' && count > 0 ? [{ type: 'session.ended', data: { reason, count } }] : [];

const publishCredentialChange = (what: string): ToEvents =>
  combine(
    publish('user.credentials_changed', () => ({ what })),
    publishEndedSessions(`${what}_changed`),
  );

const toMemberData = ({ details: { user_id, before, after } }: AuditedEvent): Fields => {
  const { role } = { ...(before as Fields), ...(after as Fields) };
  return { user_id, ...(typeof role === 'string' && { role }) };
};

const publishMemberRemoval = (reason: string): ToEvents =>
  publish('household.member_removed', (audited) => ({ ...toMemberData(audited), reason }));

const toNodeData = ({ details }: AuditedEvent): Fields => {
  const node = { ...details, ...(details.after as Fields | undefined) };
  return Object.fromEntries(
    ['household_id', 'room', 'name'].filter((key) => key in node).map((key) => [key, node[key]]),
  );
};

const publishUserUpdate: ToEvents = (audited) => {
  const { before = {}, after = {} } = audited.details as { before?: Fields; after?: Fields };
  const hasNewEmail = after.email !== undefined;
  const isDisabled = after.is_active === false;
  const events: PublishedEvent[] = [];
  if (isDisabled && before.is_active !== false) events.push({ type: 'user.disabled', data: {} });
  if (after.is_active === true && before.is_active === false) events.push({ type: 'user.enabled', data: {} });
  if (hasNewEmail) events.push({ type: 'user.email_changed', data: {} });
  return [...events, ...publishEndedSessions(isDisabled ? 'disabled' : 'admin')(audited)];
};

const publishUserDeletion = combine(publish('user.deleted'), publishEndedSessions('deleted'));

const publishEndedSession = publish('session.ended', ({ count, details: { session_id, reason } }) => ({
  reason,
  count,
  ...(session_id !== undefined && { session_id }),
}));

/** Null: the audit event is not published. The record is complete, so that each new audit event needs a decision. */
export const EVENT_MAPPINGS: Readonly<Record<AuditEventName, ToEvents | null>> = {
  'user.registered': publish('user.registered'),
  'admin.user.created': publish('user.registered'),
  'user.deleted': publishUserDeletion,
  'admin.user.deleted': publishUserDeletion,
  'admin.user.updated': publishUserUpdate,
  'user.email.changed': publish('user.email_changed'),
  'user.password.changed': publishCredentialChange('password'),
  'user.password.reset': publishCredentialChange('password'),
  'user.totp.enrolled': publishCredentialChange('second_factor'),
  'user.totp.removed': publishCredentialChange('second_factor'),
  'user.recovery_codes.replaced': publishCredentialChange('second_factor'),
  'user.passkey.added': publishCredentialChange('second_factor'),
  'user.passkey.removed': publishCredentialChange('second_factor'),
  'admin.user.factors_removed': publishCredentialChange('second_factor'),
  'session.ended': publishEndedSession,
  'session.refresh.reused': publishEndedSession,
  'admin.user.sessions_revoked': publish('session.ended', ({ count }) => ({ reason: 'admin', count })),
  'household.created': combine(publish('household.created'), (audited) =>
    audited.details.user_id == null
      ? []
      : publish('household.member_added', (created) => ({ ...toMemberData(created), role: 'admin' }))(audited),
  ),
  'household.deleted': publish('household.deleted'),
  'household.member.added': publish('household.member_added', toMemberData),
  'household.member.changed': publish('household.member_changed', toMemberData),
  'household.member.removed': publishMemberRemoval('removed'),
  'household.member.left': publishMemberRemoval('left'),
  'node.enrolled': publish('node.registered', toNodeData),
  'admin.node.issued': publish('node.registered', toNodeData),
  'admin.node.updated': publish('node.changed', toNodeData),
  'admin.node.revoked': publish('node.revoked'),
  'admin.app_credential.revoked': publish('app.revoked'),

  'user.login.succeeded': null,
  'user.login.failed': null,
  'user.deletion.acknowledged': null,
  'user.email.verified': null,
  'user.email.change_requested': null,
  'user.mail.sent': null,
  'user.mail.failed': null,
  'user.second_factor.failed': null,
  'user.totp.started': null,
  'user.recovery_code.used': null,
  'user.passkey.renamed': null,
  'user.access.refused': null,
  'session.refresh.repeated_elsewhere': null,
  'signing_key.retired': null,
  'signing_key.revoked': null,
  'node.rotated': null,
  'node.enrolment.reused': null,
  'node.first_used': null,
  'node.validation.failed': null,
  'admin.node.rotated': null,
  'app.first_used': null,
  'app.validation.failed': null,
  'admin.app_credential.issued': null,
  'admin.app_credential.updated': null,
  'admin.app_credential.rotated': null,
  'admin.app_credential.rotation_finished': null,
  'operator.first_used': null,
  'admin.operator.issued': null,
  'admin.operator.updated': null,
  'admin.operator.rotated': null,
  'admin.operator.rotation_finished': null,
  'admin.operator.revoked': null,
  'operator.passkey.added': null,
  'operator.passkey.removed': null,
  'admin.key.refused': null,
  'admin.scope.refused': null,
  'admin.enrolment.issued': null,
  'admin.enrolment.cancelled': null,
  'admin.console.logged_in': null,
  'admin.console.logged_out': null,
  'admin.console.refused': null,
  'admin.user.password_reset_issued': null,
  'admin.user.throttles_removed': null,
  'admin.event_subscription.set': null,
  'admin.event_subscription.removed': null,
  'admin.event_subscription.rewound': null,
  'admin.event_subscription.skipped': null,
  'admin.event_subscription.reset': null,
  'household.renamed': null,
  'household.invitation.issued': null,
  'household.invitation.cancelled': null,
  'household.invitation.used': null,
  'users.import_started': null,
  'users.imported': null,
  'token.exchange.first_used': null,
  'token.exchange.refused': null,
  'users.exported': null,
  'audit.finding.acknowledged': null,
};

/** The audit events whose rows EventCopy reads. */
export const PUBLISHED_AUDIT_EVENTS = (Object.keys(EVENT_MAPPINGS) as AuditEventName[]).filter(
  (name) => EVENT_MAPPINGS[name],
);

/** @returns at most one event of each type, so that the id of the row and the type identify an event */
export function toEvents(audited: AuditedEvent): readonly PublishedEvent[] {
  return EVENT_MAPPINGS[audited.event as AuditEventName]?.(audited) ?? [];
}
