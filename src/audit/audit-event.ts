import type { SecurityEvent } from '../common/security-events.js';
import type { LogFields } from '../logging/log-line.js';
import type { Actor } from '../access/actor.js';

/** The security events that the audit log contains. The others are in the service log alone. */
export const AUDIT_EVENT_NAMES = [
  'user.registered',
  'user.login.succeeded',
  'user.login.failed',
  'user.password.changed',
  'user.deleted',
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
  'session.refresh.reused',
  'session.refresh.repeated_elsewhere',
  'session.ended',
  'signing_key.retired',
  'signing_key.revoked',
  'app.first_used',
  'node.first_used',
  'operator.first_used',
  'admin.key.refused',
  'admin.scope.refused',
  'admin.node.registered',
  'admin.node.updated',
  'admin.node.rotated',
  'admin.node.revoked',
  'admin.app_credential.minted',
  'admin.app_credential.rotated',
  'admin.app_credential.revoked',
  'admin.operator.added',
  'admin.operator.updated',
  'admin.operator.rotated',
  'admin.operator.revoked',
  'admin.user.created',
  'admin.user.updated',
  'admin.user.deleted',
  'admin.user.sessions_revoked',
  'admin.user.password_reset_issued',
  'admin.user.factors_removed',
  'users.import_started',
  'users.imported',
  'users.exported',
] as const satisfies readonly SecurityEvent[];
export type AuditEventName = (typeof AUDIT_EVENT_NAMES)[number];

/** One act. */
export interface AuditEvent {
  readonly event: AuditEventName;
  readonly actor: Actor;
  readonly time: Date;
  /**
   * The id of the user, node, app credential, operator or signing key that it is about, or of the run of an import or
   * export.
   */
  readonly subject: string;
  /** For people: what was before, what is after. Never a secret, a digest or an e-mail address. */
  readonly details?: Readonly<Record<string, unknown>>;
  readonly count?: number;
  /** What its log line has besides the request. Without it, none is written. */
  readonly logFields?: LogFields;
}

/** A row of audit_events; columns are named as in the database. */
export interface StoredAuditEvent {
  readonly id: string;
  readonly time: Date;
  readonly event: string;
  readonly actor_door: string;
  readonly actor_id: string | null;
  readonly subject: string | null;
  readonly request_id: string | null;
  readonly address: string | null;
  readonly details: Record<string, unknown>;
  readonly count: number;
}
