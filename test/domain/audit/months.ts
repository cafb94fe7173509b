import type { TestDatabase } from '../../support/test-database.js';

/** The first moment of the month that many months before this one, by PostgreSQL's clock. */
export async function monthsAgo(database: TestDatabase, months: number): Promise<Date> {
  const [row] = await database.query<{ month: Date }>(
    `SELECT (date_trunc('month', now() AT TIME ZONE 'UTC') - $1 * interval '1 month') AT TIME ZONE 'UTC' AS month`,
    [months],
  );
  return row!.month;
}

export function partitionOf(month: Date): string {
  return `audit_events_${month.toISOString().slice(0, 7).replace('-', '_')}`;
}

export async function partitionsOf(database: TestDatabase): Promise<string[]> {
  const rows = await database.query<{ name: string }>(
    `SELECT inhrelid::regclass::text AS name FROM pg_inherits WHERE inhparent = 'audit_events'::regclass ORDER BY 1`,
  );
  return rows.map(({ name }) => name);
}

/** A month of the past with one row, as if the service had recorded it then. @returns the name of its partition */
export async function oldMonth(database: TestDatabase, months: number, recordedAt?: Date): Promise<string> {
  const month = await monthsAgo(database, months);
  const name = partitionOf(month);
  if (!(await partitionsOf(database)).includes(name))
    await database.query('SELECT audit_events_add_month($1)', [month.toISOString().slice(0, 10)]);
  await database.query(
    `INSERT INTO audit_events (id, time, event, actor_door, count, details, recorded_at)
     VALUES (gen_random_uuid(), $1, 'user.registered', 'open', 1, '{}', $2)`,
    [month, recordedAt ?? month],
  );
  return name;
}
