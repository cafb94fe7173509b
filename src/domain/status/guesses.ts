import type { Statement } from '../../foundation/database/database.js';

/** Four windows of counted refusals. */
const GUESS_MINUTES = 60;
/** A throttled attack has its next guess verified when a window of 15 minutes ends, so it is seen at least that often. */
export const GOING_ON_MINUTES = 16;
/** Fewer wrong guesses in an hour are those of users who mistype. */
export const MIN_GUESSES = 20;
/** Fewer throttled guesses are those of a client that keeps retrying an old password. */
export const MIN_THROTTLED = 100;
/** While {@link MIN_THROTTLED} guesses are throttled, few verified ones are enough to name the attacker. */
export const MIN_GUESSES_OF_THROTTLED = 2;

const EVENTS = `ARRAY['user.login.failed', 'user.second_factor.failed', 'admin.key.refused']`;
/** Limits the findings of each side, and the names of the other side in each. */
export const MAX_NAMED = 5;

/** The guesses of one address, or those at one account. */
export interface GuessRow {
  readonly side: 'address' | 'subject';
  readonly name: string;
  readonly guesses: number;
  /** The number of different accounts of an address, or of addresses at an account; `most`: the most frequent ones. */
  readonly others: number;
  readonly most: readonly string[] | null;
  readonly since: Date;
  readonly last_at: Date;
}

const group = (side: string, other: string): string => `
  (SELECT '${side}' AS side, ${side} AS name, sum(count)::integer AS guesses, count(${other})::integer AS others,
     (array_agg(${other} ORDER BY count DESC) FILTER (WHERE ${other} IS NOT NULL))[1:${MAX_NAMED}] AS most,
     min(since) AS since, max(last_at) AS last_at
   FROM (SELECT ${side}, ${other}, sum(count) AS count, min(time) AS since, max(last_at) AS last_at FROM guesses
         WHERE ${side} IS NOT NULL GROUP BY ${side}, ${other}) AS pairs
   GROUP BY ${side} ORDER BY guesses DESC LIMIT ${MAX_NAMED})`;

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
