import type { Statement } from '../../foundation/database/database.js';

/** An hour, because the windows of counted refusals are quarters of it. */
const GUESS_MINUTES = 60;
/** A guessed account is verified again when its window of 15 minutes ends, so a wave is seen at least that often. */
export const GOING_ON_MINUTES = 16;
/** Fewer wrong guesses in an hour are people who mistype. */
export const MIN_GUESSES = 20;
/** Behind fewer throttled guesses is a client that keeps trying with an old password. */
export const MIN_THROTTLED = 100;
/** While that many are throttled, fewer verified ones already tell who guesses. */
export const MIN_GUESSES_OF_THROTTLED = 2;

const EVENTS = `ARRAY['user.login.failed', 'user.second_factor.failed', 'admin.key.refused']`;
/** Of the addresses, and of the findings of each side. */
export const SHOWN = 5;

/** What one address guessed at, or from where one account was guessed. */
export interface GuessRow {
  readonly side: 'address' | 'subject';
  readonly name: string;
  readonly guesses: number;
  /** How many different accounts, or addresses, are on the other side, and the most frequent ones. */
  readonly others: number;
  readonly most: readonly string[] | null;
  readonly since: Date;
  readonly last_at: Date;
}

const group = (side: string, other: string): string => `
  (SELECT '${side}' AS side, ${side} AS name, sum(count)::integer AS guesses, count(${other})::integer AS others,
     (array_agg(${other} ORDER BY count DESC) FILTER (WHERE ${other} IS NOT NULL))[1:${SHOWN}] AS most,
     min(since) AS since, max(last_at) AS last_at
   FROM (SELECT ${side}, ${other}, sum(count) AS count, min(time) AS since, max(last_at) AS last_at FROM guesses
         WHERE ${side} IS NOT NULL GROUP BY ${side}, ${other}) AS pairs
   GROUP BY ${side} ORDER BY guesses DESC LIMIT ${SHOWN})`;

/**
 * An open window knows how many guesses came from each of its most frequent addresses. One that was moved to the audit log
 * knows which five they were, so its guesses are divided among them. `$1`: PostgreSQL's time as this replica reads it.
 */
export const FIND_GUESSES: Statement = {
  name: 'findings_guesses',
  text: `WITH guesses AS MATERIALIZED (
      SELECT subject, COALESCE(of_address.key, address) AS address, COALESCE(of_address.value::numeric, count) AS count,
        time, last_at
      FROM counted_refusals LEFT JOIN LATERAL jsonb_each_text(addresses) AS of_address ON true
      WHERE event = ANY (${EVENTS}) AND last_at > $1::timestamptz - interval '${GUESS_MINUTES} minutes'
        AND window_start > $1::timestamptz - interval '${GUESS_MINUTES + 15} minutes'
      UNION ALL
      SELECT subject, COALESCE(frequent.address, audit_events.address),
        count::numeric / COALESCE(jsonb_array_length(details -> 'addresses'), 1),
        time, COALESCE((details ->> 'last_at')::timestamptz, time)
      FROM audit_events
        LEFT JOIN LATERAL jsonb_array_elements_text(details -> 'addresses') AS frequent(address) ON true
      WHERE event = ANY (${EVENTS}) AND time > $1::timestamptz - interval '${GUESS_MINUTES} minutes')
    ${group('address', 'subject')} UNION ALL ${group('subject', 'address')}`,
};
