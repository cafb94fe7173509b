/** A row as RESERVE leaves it. */
export interface ReservedWindow {
  readonly key: string;
  readonly lost: number;
  /** Points that the batch got, less the ones its requests have taken. */
  granted: number;
  readonly window_start: Date;
  readonly ms_left: number;
}

/** In milliseconds, so that a Date can identify a window. */
const NOW = `date_trunc('milliseconds', now())`;
/** The second half: a clock that was set back, or a limit that was longer, must not freeze a count. */
const IS_OVER = `(w.window_end <= now() OR w.window_end > excluded.window_end + interval '1 minute')`;
const LOST = `(CASE WHEN ${IS_OVER} THEN 0 ELSE w.lost END)`;
const IN_FLIGHT = `(CASE WHEN ${IS_OVER} OR w.in_flight_until <= now() THEN 0 ELSE w.in_flight END)`;
const GRANTED = `GREATEST(0, LEAST(excluded.granted, excluded.points - ${LOST} - ${IN_FLIGHT}))`;
const STATE = `key, lost, granted, window_start, (extract(epoch FROM window_end - now()) * 1000)::float8 AS ms_left`;

/**
 * Takes what is left of the points that are wanted of each key ($1) as lost ($4) or in flight ($5), and reads the live
 * rows of $6. Every statement locks rows in the order of their keys, so that replicas cannot deadlock. A minute in
 * flight is longer than any verification: 3 s for the account, 20 s for a thread, and one bcrypt.
 */
export const RESERVE = {
  name: 'throttle_reserve',
  text: `
    WITH reserved AS (
      INSERT INTO throttle_windows AS w (key, points, window_start, window_end, lost, in_flight, in_flight_until, granted)
      SELECT key, points, ${NOW}, ${NOW} + seconds * interval '1 s', lost, in_flight, now() + interval '1 minute', lost + in_flight
      FROM unnest($1::text[], $2::int[], $3::int[], $4::int[], $5::int[]) AS wanted (key, points, seconds, lost, in_flight)
      ORDER BY key COLLATE "C"
      ON CONFLICT (key) DO UPDATE SET
        points = excluded.points, granted = ${GRANTED},
        window_start = CASE WHEN ${IS_OVER} THEN excluded.window_start ELSE w.window_start END,
        window_end = CASE WHEN ${IS_OVER} THEN excluded.window_end ELSE w.window_end END,
        lost = ${LOST} + LEAST(excluded.lost, ${GRANTED}),
        in_flight = ${IN_FLIGHT} + LEAST(excluded.in_flight, ${GRANTED}),
        in_flight_until = CASE WHEN ${GRANTED} > 0 THEN GREATEST(w.in_flight_until, excluded.in_flight_until)
                               ELSE w.in_flight_until END
      RETURNING ${STATE})
    SELECT * FROM reserved
    UNION ALL SELECT ${STATE} FROM throttle_windows WHERE key = ANY ($6::text[]) AND window_end > now()`,
};

/** Ends points in flight of the windows ($1, $2), some of them lost ($3), and keeps the rows of $4 alive for $5 days. */
export const SETTLE = {
  name: 'throttle_settle',
  text: `
    WITH known AS (
      INSERT INTO throttle_windows (key, points, window_start, window_end, lost, in_flight, in_flight_until, granted)
      SELECT DISTINCT key, 1, now(), now() + $5 * interval '1 day', 1, 0, now(), 0 FROM unnest($4::text[]) AS key
      ORDER BY key
      ON CONFLICT (key) DO UPDATE SET window_end = excluded.window_end),
    settled AS (
      SELECT key, window_start, count(*) AS ended, sum(lost) AS lost
      FROM unnest($1::text[], $2::timestamptz[], $3::int[]) AS given (key, window_start, lost) GROUP BY 1, 2),
    locked AS (SELECT key FROM throttle_windows WHERE key = ANY ($1) ORDER BY key COLLATE "C" FOR UPDATE)
    UPDATE throttle_windows AS w SET lost = w.lost + settled.lost, in_flight = GREATEST(0, w.in_flight - settled.ended)
    FROM settled JOIN locked USING (key) WHERE w.key = settled.key AND w.window_start = settled.window_start`,
};

/** Counts nothing. */
export const READ = {
  name: 'throttle_read',
  text: `SELECT key, lost, window_end FROM throttle_windows WHERE key = ANY ($1::text[]) AND window_end > now()`,
};

export const PURGE = `DELETE FROM throttle_windows WHERE key IN (
  SELECT key FROM throttle_windows WHERE window_end < now() - $1::interval LIMIT $2 FOR UPDATE SKIP LOCKED)`;
