import type { MigrationInterface, QueryRunner } from 'typeorm';

const buildIsOwn = (xid: string): string => `${xid} < pg_snapshot_xmax(pg_current_snapshot())`;

/**
 * A dump of another cluster brings transaction ids that this one has not assigned, as rows of credential_changes and as the
 * mark of their purge. They say nothing about this cluster, and must not hide the mark of its own purges.
 */
export class IgnoreRestoredPurges1763772000000 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await createFunction(
      runner,
      `GREATEST(
          CASE WHEN ${buildIsOwn('purged')} THEN purged END,
          (SELECT xid FROM gone WHERE ${buildIsOwn('xid')} ORDER BY xid DESC LIMIT 1),
          '0')`,
    );
    // What was purged under such a mark is not known: older cursors are reset once.
    await runner.query(
      `UPDATE credential_change_purges SET purged = pg_current_xact_id() WHERE NOT ${buildIsOwn('purged')}`,
    );
  }

  async down(runner: QueryRunner): Promise<void> {
    await createFunction(runner, 'GREATEST(purged, (SELECT xid FROM gone ORDER BY xid DESC LIMIT 1))');
  }
}

async function createFunction(runner: QueryRunner, mark: string): Promise<void> {
  // Qualified: a restore and the apply worker of logical replication run triggers with an empty search path.
  const [row] = (await runner.query('SELECT quote_ident(current_schema()) AS schema')) as { schema: string }[];
  await runner.query(`
    CREATE OR REPLACE FUNCTION record_credential_change_purge() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      UPDATE ${row?.schema}.credential_change_purges SET purged = ${mark} WHERE EXISTS (SELECT FROM gone);
      RETURN NULL;
    END $$;
  `);
}
