import { z } from 'zod';
import type { PostgresServer } from '../tools/postgres-server.js';

const nextIds = z.tuple([z.object({ id: z.string() })]);

/** Uses up transaction ids. */
export async function assignIds(postgres: PostgresServer, count: number): Promise<void> {
  await postgres.query(
    `DO $$ BEGIN FOR n IN 1..${count} LOOP PERFORM pg_current_xact_id(); ROLLBACK; END LOOP; END $$`,
  );
}

/** @returns the id of the next transaction */
export async function readNextId(postgres: PostgresServer): Promise<bigint> {
  const rows = await postgres.query('SELECT pg_snapshot_xmax(pg_current_snapshot())::text AS id');
  const [{ id }] = nextIds.parse(rows);
  return BigInt(id);
}
