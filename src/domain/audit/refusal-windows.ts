/** The windows of counted refusals, wherever they stand. */
import type { CountedEvent } from './counted-refusals.js';

/**
 * Windows stand in `counted_refusals` while they are open, and in `audit_events` afterwards. An open window knows how many
 * refusals came from each of its most frequent addresses. The audit log keeps the names of five, so the refusals are
 * divided among them.
 */
export const REFUSAL_WINDOWS = `(
  SELECT event, subject, time, last_at, count, address, addresses FROM counted_refusals
  UNION ALL
  SELECT event, subject, time, COALESCE((details ->> 'last_at')::timestamptz, time), count, address,
    (SELECT jsonb_object_agg(frequent, count::numeric / jsonb_array_length(details -> 'addresses'))
     FROM jsonb_array_elements_text(details -> 'addresses') AS frequent)
  FROM audit_events)`;

/**
 * Selects the accounts and addresses of windows of wrong passwords and codes, `addresses` as an array in JSON. A window
 * has the time of its first refusal, which is up to 15 minutes earlier than the others.
 */
export function selectFailedAttempts(passwordsSince: string, codesSince: string): string {
  const selectSince = (event: CountedEvent, since: string): string => `
    SELECT subject, time, COALESCE((SELECT jsonb_agg(key) FROM jsonb_each(addresses)), '[]') ||
      COALESCE(to_jsonb(address), '[]') AS addresses
    FROM ${REFUSAL_WINDOWS} AS windows WHERE event = '${event}' AND time >= ${since}`;
  return `${selectSince('user.login.failed', passwordsSince)}
    UNION ALL ${selectSince('user.second_factor.failed', codesSince)}`;
}
