// The runs of the maintenance jobs, and since when a root key is in use.

import { SqlMigration } from '../sql-migration.js';

export class CreateMaintenance1795651200013 extends SqlMigration {
  readonly create = () => `
    CREATE TABLE job_runs (
      job          text CONSTRAINT job_runs_pkey PRIMARY KEY,
      succeeded_at timestamptz NOT NULL DEFAULT now()
    );
    COMMENT ON TABLE job_runs IS 'when each job of the maintenance last succeeded, in any replica';
    -- The rows exist from the start, so that a job that never succeeds grows old too.
    INSERT INTO job_runs (job) VALUES ('purge'), ('audit_maintenance'), ('key_maintenance');

    CREATE TABLE root_keys (
      marker        bytea CONSTRAINT root_keys_pkey PRIMARY KEY,
      first_seen_at timestamptz NOT NULL DEFAULT now()
    );
    COMMENT ON TABLE root_keys IS 'when a replica first started with each ADMIN_API_KEY; the marker does not reveal it';
  `;

  readonly drop = 'DROP TABLE root_keys; DROP TABLE job_runs';
}
