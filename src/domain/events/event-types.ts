/**
 * What an audit event tells the services: its events of a few stable types, or nothing. An event is a reason to look and
 * not the state, so its data has ids, names and reasons only. docs/events.md describes the types.
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

export const SUBJECT_KINDS = ['user', 'household', 'node', 'app'] as const;
export type SubjectKind = (typeof SUBJECT_KINDS)[number];

/** The subject of a session's end is its user, because that is whose data a service has. */
export function toSubjectKind(type: EventType): SubjectKind {
  return SUBJECT_KINDS.find((kind) => type.startsWith(`${kind}.`)) ?? 'user';
}

export type AuditedAct = Pick<StoredAuditEvent, 'event' | 'details' | 'count'>;

export interface ToldEvent {
  readonly type: EventType;
  readonly data: Readonly<Record<string, unknown>>;
}

type Fields = Record<string, unknown>;
type ToEvents = (act: AuditedAct) => readonly ToldEvent[];

const tell =
  (type: EventType, toData: (act: AuditedAct) => Fields = () => ({})): ToEvents =>
  (act) => [{ type, data: toData(act) }];

const all =
  (...parts: readonly ToEvents[]): ToEvents =>
  (act) =>
    parts.flatMap((toEvents) => toEvents(act));

/** The sessions that another act ended with it. */
const endSessions =
  (reason: string): ToEvents =>
  ({ details: { ended_sessions: count } }) =>
    typeof count === 'number' && count > 0 ? [{ type: 'session.ended', data: { reason, count } }] : [];

const changeCredentials = (what: string): ToEvents =>
  all(
    tell('user.credentials_changed', () => ({ what })),
    endSessions(`${what}_changed`),
  );

const nameMember = ({ details: { user_id, before, after } }: AuditedAct): Fields => {
  const { role } = { ...(before as Fields), ...(after as Fields) };
  return { user_id, ...(typeof role === 'string' && { role }) };
};

const removeMember = (reason: string): ToEvents =>
  tell('household.member_removed', (act) => ({ ...nameMember(act), reason }));

const placeNode = ({ details }: AuditedAct): Fields => {
  const placed = { ...details, ...(details.after as Fields | undefined) };
  return Object.fromEntries(
    ['household_id', 'room', 'name'].filter((key) => key in placed).map((key) => [key, placed[key]]),
  );
};

const updateUser: ToEvents = (act) => {
  const { before = {}, after = {} } = act.details as { before?: Fields; after?: Fields };
  const isMoved = after.email !== undefined;
  const isDisabled = after.is_active === false;
  const told: ToldEvent[] = [];
  if (isDisabled && before.is_active !== false) told.push({ type: 'user.disabled', data: {} });
  if (after.is_active === true && before.is_active === false) told.push({ type: 'user.enabled', data: {} });
  if (isMoved) told.push({ type: 'user.email_changed', data: {} });
  return [...told, ...endSessions(isDisabled ? 'disabled' : 'admin')(act)];
};

const deleteUser = all(
  tell('user.deleted'),
  tell('session.ended', () => ({ reason: 'deleted', count: null })),
);

const endSession = tell('session.ended', ({ count, details: { session_id, reason } }) => ({
  reason,
  count,
  ...(session_id !== undefined && { session_id }),
}));

/** Null: services are not told. A new audit event needs a decision, so the record is complete. */
export const EVENTS_OF_ACTS: Readonly<Record<AuditEventName, ToEvents | null>> = {
  'user.registered': tell('user.registered'),
  'admin.user.created': tell('user.registered'),
  'user.deleted': deleteUser,
  'admin.user.deleted': deleteUser,
  'admin.user.updated': updateUser,
  'user.email.changed': tell('user.email_changed'),
  'user.password.changed': changeCredentials('password'),
  'user.password.reset': changeCredentials('password'),
  'user.totp.enrolled': changeCredentials('second_factor'),
  'user.totp.removed': changeCredentials('second_factor'),
  'user.recovery_codes.replaced': changeCredentials('second_factor'),
  'user.passkey.added': changeCredentials('second_factor'),
  'user.passkey.removed': changeCredentials('second_factor'),
  'admin.user.factors_removed': changeCredentials('second_factor'),
  'session.ended': endSession,
  'session.refresh.reused': endSession,
  'admin.user.sessions_revoked': tell('session.ended', ({ count }) => ({ reason: 'admin', count })),
  'household.created': all(tell('household.created'), (act) =>
    act.details.user_id == null
      ? []
      : tell('household.member_added', (made) => ({ ...nameMember(made), role: 'admin' }))(act),
  ),
  'household.deleted': tell('household.deleted'),
  'household.member.added': tell('household.member_added', nameMember),
  'household.member.changed': tell('household.member_changed', nameMember),
  'household.member.removed': removeMember('removed'),
  'household.member.left': removeMember('left'),
  'node.enrolled': tell('node.registered', placeNode),
  'admin.node.issued': tell('node.registered', placeNode),
  'admin.node.updated': tell('node.changed', placeNode),
  'admin.node.revoked': tell('node.revoked', () => ({})),
  'admin.app_credential.revoked': tell('app.revoked', () => ({})),

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
};

/** The audit events whose rows the copy reads. */
export const TOLD_ACTS = (Object.keys(EVENTS_OF_ACTS) as AuditEventName[]).filter((name) => EVENTS_OF_ACTS[name]);

/** @returns at most one event of each type, so that the id of the row and the type identify an event */
export function toEvents(act: AuditedAct): readonly ToldEvent[] {
  return EVENTS_OF_ACTS[act.event as AuditEventName]?.(act) ?? [];
}
