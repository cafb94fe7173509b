import type { EntityManager } from 'typeorm';
import { createId } from '../common/ids.js';
import type { SecurityEvent } from '../common/security-event.js';
import type { Statement } from '../database/database.js';
import type { Actor } from './actor.js';

/** What the record holds. The other security events are in the log alone. */
export const AUDITED_EVENTS = [
  'user.registered',
  'user.login.succeeded',
  'user.login.failed',
  'session.refresh.reused',
  'session.refresh.repeated_elsewhere',
  'session.ended',
  'app.first_used',
  'node.first_used',
  'admin.key.refused',
  'admin.node.registered',
  'admin.node.updated',
  'admin.node.rotated',
  'admin.node.revoked',
  'admin.app_credential.minted',
  'admin.app_credential.rotated',
  'admin.app_credential.revoked',
  'admin.user.created',
  'admin.user.updated',
  'admin.user.deleted',
  'admin.user.sessions_revoked',
] as const satisfies readonly SecurityEvent[];
export type AuditedEvent = (typeof AUDITED_EVENTS)[number];

/** One act. Details are for people: what was before, what is after. Never a secret, a digest or an e-mail address. */
export interface AuditEntry {
  readonly event: AuditedEvent;
  readonly actor: Actor;
  readonly time: Date;
  /** The user, node or app credential that it was about. */
  readonly subject: string;
  readonly details?: Readonly<Record<string, unknown>>;
  readonly count?: number;
}

const INSERT = `INSERT INTO audit_events
  (id, time, event, actor_door, actor_id, subject, request_id, address, details, count)`;
const TYPES = ['uuid', 'timestamptz', 'text', 'text', 'text', 'text', 'text', 'text', 'jsonb'];

/**
 * A statement that also records what it did: both are committed or neither, in one round trip. It takes its own
 * values and then those of {@link entryValues}. One row is recorded however many rows the act returns, and none when
 * it returns none.
 * @param act an INSERT, UPDATE or DELETE with RETURNING
 * @param details SQL for more details, made of the rows of `act`
 */
export function audited(act: Statement, details?: string): Statement {
  const own = Math.max(...Array.from(act.text.matchAll(/\$(\d+)/g), ([, number]) => Number(number)));
  const columns = TYPES.map((type, index) => `$${own + 1 + index}::${type}`).join(', ');
  return {
    name: act.name,
    text: `WITH act AS (${act.text}),
                record AS (${INSERT} SELECT ${columns}${details ? ` || ${details}` : ''}, count(*) FROM act HAVING count(*) > 0)
           SELECT * FROM act`,
  };
}

/** What an {@link audited} statement takes after its own values. */
export function entryValues({ event, actor, time, subject, details = {} }: Omit<AuditEntry, 'count'>): unknown[] {
  const { door, id, requestId, callerRequestId, address } = actor;
  const all = callerRequestId === undefined ? details : { ...details, caller_request_id: callerRequestId };
  return [createId(), time, event, door, id, subject, requestId, address, JSON.stringify(all)];
}

/** Records an act in the transaction that does it. */
export async function recordIn(transaction: EntityManager, entry: AuditEntry): Promise<void> {
  const values = TYPES.map((_type, index) => `$${index + 1}`).join(', ');
  await transaction.query(`${INSERT} VALUES (${values}, $${TYPES.length + 1})`, [
    ...entryValues(entry),
    entry.count ?? 1,
  ]);
}
