import { Client } from 'pg';
import type { Response, Test as SupertestRequest } from 'supertest';
import { eventually } from '../../tools/eventually.js';
import type { TestDatabase } from './test-database.js';

/** Begins a transaction with a statement and leaves it open: `end()` rolls it back. */
export async function openTransaction({ url }: TestDatabase, statement: string): Promise<Client> {
  const client = new Client({ connectionString: url });
  await client.connect();
  await client.query(`BEGIN; ${statement}`);
  return client;
}

/** So that statements which read or write the tables wait. */
export function lockTables(database: TestDatabase, tables: string): Promise<Client> {
  return openTransaction(database, `LOCK TABLE ${tables} IN ACCESS EXCLUSIVE MODE`);
}

/** Locks a row, so that a test decides the order of its changes. */
export const holdRow = (database: TestDatabase, table: string, id: string) =>
  hold(database, `SELECT id FROM ${table} WHERE id = '${id}' FOR UPDATE`);

/** Locks a table, so that every statement about it waits. */
export const holdTable = (database: TestDatabase, table: string) =>
  hold(database, `LOCK TABLE ${table} IN ACCESS EXCLUSIVE MODE`);

async function hold(database: TestDatabase, lock: string) {
  const client = await openTransaction(database, lock);
  const waiters = async (): Promise<number> => {
    const sql = `SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`;
    return (await database.query(sql)).length;
  };
  return {
    /** Resolves when this number of statements waits for a lock. */
    waiting: (count: number): Promise<void> =>
      eventually(`${count} statements wait for a lock`, async () => (await waiters()) >= count),
    release: async (): Promise<void> => {
      await client.query('COMMIT');
      await client.end();
    },
  };
}

/** Sends calls that lock a row, and lets them lock it only when several have found what they race for. */
export async function raceForRow(
  database: TestDatabase,
  table: string,
  id: string,
  calls: SupertestRequest[],
): Promise<Response[]> {
  const row = await holdRow(database, table, id);
  const answers = Promise.all(calls);
  await row.waiting(2);
  await row.release();
  return answers;
}
