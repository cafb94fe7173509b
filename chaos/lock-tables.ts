import { DatabaseError, type Client } from 'pg';

const DEADLOCK = '40P01';
const MAX_ATTEMPTS = 5;

/**
 * Begins a transaction that locks tables against every other. Tries again when PostgreSQL ends it because of a deadlock: a
 * transaction of a replica may hold one of the tables and wait for another.
 */
export async function lockTables(client: Client, tables: readonly string[]): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    await client.query('BEGIN');
    try {
      await client.query(`LOCK TABLE ${tables.join(', ')} IN ACCESS EXCLUSIVE MODE`);
      return;
    } catch (error) {
      const isDeadlock = error instanceof DatabaseError && error.code === DEADLOCK;
      if (!isDeadlock || attempt === MAX_ATTEMPTS) throw error;
      await client.query('ROLLBACK');
    }
  }
}
