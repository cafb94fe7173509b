import { Client } from 'pg';
import type { Response, Test as SupertestRequest } from 'supertest';
import { eventually } from '../../tools/eventually.js';
import type { TestDatabase } from './test-database.js';

/** Begins a transaction with a statement and leaves it open; `end()` rolls it back. */
export async function openTransaction({ url }: TestDatabase, statement: string): Promise<Client> {
  const client = new Client({ connectionString: url });
  await client.connect();
  await client.query(`BEGIN; ${statement}`);
  return client;
}

/** Makes statements that read or write the tables wait. */
export function lockTables(database: TestDatabase, tables: string): Promise<Client> {
  return openTransaction(database, `LOCK TABLE ${tables} IN ACCESS EXCLUSIVE MODE`);
}

/** Locks a row, so that a test decides the order of its changes. */
export const holdRow = (database: TestDatabase, table: string, id: string) =>
  hold(database, `SELECT id FROM ${table} WHERE id = '${id}' FOR UPDATE`);

/** Locks a table, so that every statement on it waits. */
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

/** Sends calls that lock a row, and holds the row until several calls wait for it. */
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

/** Ends the connection that holds an advisory lock, as an administrator or a failover would. */
export async function endLockHolder(database: TestDatabase, lock: number): Promise<void> {
  const held = `FROM pg_locks WHERE locktype = 'advisory' AND granted AND objid = ${lock}
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`;
  await database.query(`SELECT pg_terminate_backend(pid) ${held}`);
  await eventually('the lock is free', async () => (await database.query(`SELECT 1 ${held}`)).length === 0);
}

const LOCK = 4_713;

/**
 * Holds every transaction that writes such a row, until it is released.
 * @param condition SQL about NEW
 */
export async function holdWrites(database: TestDatabase, table: string, condition = 'true') {
  const holder = new Client({ connectionString: database.url });
  await holder.connect();
  await holder.query('SELECT pg_advisory_lock($1)', [LOCK]);
  await holder.query(`
    CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN PERFORM pg_advisory_lock(${LOCK}); PERFORM pg_advisory_unlock(${LOCK}); RETURN NEW; END $$;
    CREATE TRIGGER barrier BEFORE INSERT OR UPDATE ON ${table} FOR EACH ROW WHEN (${condition})
      EXECUTE FUNCTION wait()`);
  const waiting = `
    SELECT 1 FROM pg_locks JOIN pg_database ON pg_database.oid = database AND datname = current_database()
    WHERE locktype = 'advisory' AND NOT granted AND objid = ${LOCK}`;
  return {
    reached: async () => eventually('a write waits', async () => (await database.query(waiting)).length > 0),
    release: () => holder.end(),
    /** To be called after the release. */
    remove: () => database.query(`DROP TRIGGER barrier ON ${table}; DROP FUNCTION wait()`),
  };
}
