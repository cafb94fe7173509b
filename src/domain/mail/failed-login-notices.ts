import { Injectable } from '@nestjs/common';
import { addSeconds } from '../../foundation/common/clock.js';
import { Environment } from '../../foundation/config/environment.js';
import { Database } from '../../foundation/database/database.js';
import { REFUSAL_WINDOWS } from '../audit/counted-refusals.js';

const PERIOD_SECONDS = 86_400;
/** More than a user who mistypes. */
const MIN_WRONG_PASSWORDS = 20;
/** Fewer, because each wrong code follows the right password (ASVS 6.3.5). */
const MIN_WRONG_CODES = 5;

/** What can be guessed: other reasons follow a right password or code, or are about a passkey. */
function sumReasons(...reasons: readonly string[]): string {
  return reasons.map((reason) => `COALESCE((reasons ->> '${reason}')::int, 0)`).join(' + ');
}

/**
 * Adds one mail for each account with many failures since `$1`. An attacker who goes on causes no second mail within the
 * period, because a waiting one and a sent one both count.
 */
const ADD = {
  name: 'mail_requests_add_failed_logins',
  text: `INSERT INTO mail_requests (id, kind, recipient, user_id)
  SELECT gen_random_uuid(), 'failed_logins', users.email, users.id
  FROM (SELECT CASE WHEN subject NOT LIKE 'unknown:%' THEN subject::uuid END AS user_id,
          sum(${sumReasons('wrong_password', 'wrong_current_password')})
            FILTER (WHERE event = 'user.login.failed') AS passwords,
          sum(${sumReasons('wrong_code', 'repeated_code')})
            FILTER (WHERE event = 'user.second_factor.failed') AS codes
        FROM ${REFUSAL_WINDOWS} AS failures
        WHERE event IN ('user.login.failed', 'user.second_factor.failed') AND time > $1
        GROUP BY subject) AS counted
  JOIN users ON users.id = counted.user_id
  WHERE users.is_active AND (passwords >= ${MIN_WRONG_PASSWORDS} OR codes >= ${MIN_WRONG_CODES})
    AND NOT EXISTS (SELECT FROM audit_events AS mails WHERE mails.subject = users.id::text AND mails.time > $1
      AND mails.event IN ('user.mail.sent', 'user.mail.failed') AND mails.details ->> 'kind' = 'failed_logins')
  ON CONFLICT (user_id, kind) WHERE user_id IS NOT NULL DO NOTHING
  RETURNING id`,
};

/**
 * Tells users by mail of many failed logins. A job does it, and not the login: so a login costs the same work for every
 * address, and its response reveals nothing.
 */
@Injectable()
export class FailedLoginNotices {
  constructor(
    private readonly database: Database,
    private readonly environment: Environment,
  ) {}

  /** @param now by the clock of PostgreSQL */
  async addNotices(now: Date): Promise<void> {
    if (this.environment.mailUrl) await this.database.rows(ADD, [addSeconds(now, -PERIOD_SECONDS)]);
  }
}
