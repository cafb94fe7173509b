import { Client } from 'pg';
import { eventually } from '../../tools/eventually.js';
import type { TestDatabase } from './test-database.js';

const LOCK = 4_713;

/** Holds every transaction that writes such a row, until it is released. @param condition SQL about NEW */
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
