import { Injectable } from '@nestjs/common';
import { Clock } from '../common/clock.js';
import { newId } from '../common/ids.js';
import { Environment } from '../config/environment.js';
import { deriveKey, mac } from '../crypto/secret.js';
import { Database } from '../database/database.js';
import type { Actor } from './actor.js';

const WINDOW_MS = 15 * 60_000;
/** A replica whose clock is behind, or a statement that waited, may still count in a window that is over. */
const SLACK_MS = 60_000;

const COUNT = {
  name: 'failed_logins_count',
  text: `INSERT INTO failed_logins AS counted
           (account, window_start, id, time, last_at, subject, request_id, address, count, reasons)
         VALUES ($1, $2, $3, $4, $4, $5, $6, $7, 1, jsonb_build_object($8::text, 1))
         ON CONFLICT ON CONSTRAINT failed_logins_pkey DO UPDATE
         SET count = counted.count + 1, last_at = GREATEST(counted.last_at, excluded.last_at),
             reasons = counted.reasons || jsonb_build_object($8::text, COALESCE((counted.reasons ->> $8)::int, 0) + 1)`,
};

/** The columns of a row of failed_logins as those of audit_events, in the same order. */
export const FAILED_LOGIN_AS_EVENT = `id, time, 'user.login.failed' AS event, 'open' AS actor_door, NULL::text AS actor_id,
  subject, request_id, address, count, jsonb_build_object('reasons', reasons,
    'last_at', to_char(last_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')) AS details`;

const BATCH_SIZE = 1_000;
const MOVE_CLOSED = {
  name: 'failed_logins_move_closed',
  text: `WITH closed AS (
           DELETE FROM failed_logins WHERE (account, window_start) IN
             (SELECT account, window_start FROM failed_logins
              WHERE window_start <= $1 LIMIT ${BATCH_SIZE} FOR UPDATE SKIP LOCKED)
           RETURNING *)
         INSERT INTO audit_events (id, time, event, actor_door, actor_id, subject, request_id, address, count, details)
         SELECT ${FAILED_LOGIN_AS_EVENT} FROM closed RETURNING id`,
};

export interface FailedLogin {
  readonly reason: string;
  /** Undefined for an address without an account. */
  readonly userId?: string;
}

/**
 * Counts failed logins: one row for each address and window of 15 minutes, whatever replica counts. The row has the
 * request id and network address of the first failure.
 */
@Injectable()
export class FailedLogins {
  private readonly key;

  constructor(
    environment: Environment,
    private readonly database: Database,
    private readonly clock: Clock,
  ) {
    this.key = deriveKey(environment.secretKey, 'platform-auth audit account v1');
  }

  /**
   * One write, whether the address has an account or not.
   * @param email canonical
   */
  async record(email: string, { reason, userId }: FailedLogin, { requestId, address }: Actor): Promise<void> {
    const account = mac(this.key, email);
    const now = this.clock.now();
    const windowStart = new Date(now.getTime() - (now.getTime() % WINDOW_MS));
    const subject = userId ?? `unknown:${account.toString('hex', 0, 16)}`;
    await this.database.rows(COUNT, [account, windowStart, newId(), now, subject, requestId, address, reason]);
  }

  /**
   * Makes the windows that are over part of the audit log, in small batches. Several replicas may do it at once.
   * @param now by the clock of PostgreSQL
   * @returns how many
   */
  async moveClosed(now: Date): Promise<number> {
    const latestStart = new Date(now.getTime() - WINDOW_MS - SLACK_MS);
    let total = 0;
    for (let moved = BATCH_SIZE; moved === BATCH_SIZE; total += moved) {
      moved = (await this.database.rows(MOVE_CLOSED, [latestStart])).length;
    }
    return total;
  }
}
