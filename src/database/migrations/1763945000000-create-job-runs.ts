import type { MigrationInterface, QueryRunner } from 'typeorm';

/** When each job of the maintenance last succeeded in any replica. Replicas of an older version do not write to it. */
export class CreateJobRuns1763945000000 implements MigrationInterface {
  /** The rows exist from the start, so that a job that never succeeds grows old too. */
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      CREATE TABLE job_runs (
        job          text        NOT NULL,
        succeeded_at timestamptz NOT NULL DEFAULT now(),
        CONSTRAINT job_runs_pkey PRIMARY KEY (job)
      );
      INSERT INTO job_runs (job) VALUES ('purge'), ('audit_maintenance'), ('key_maintenance');
      COMMENT ON TABLE job_runs IS 'when each job of the maintenance last succeeded, in any replica';
    `);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('DROP TABLE job_runs');
  }
}
