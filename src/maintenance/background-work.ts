// How far the work that no request waits for is behind. While PostgreSQL has a full disk, sealing and purges fail although
// reads, and so /health, succeed.

import { Injectable } from '@nestjs/common';
import { SealWriter } from '../audit/seals/seal-writer.js';
import { Database } from '../database/database.js';
import { Outbox } from '../mail/outbox.js';
import { createSlowGauge, MetricsRegistry } from '../metrics/metrics-registry.js';

export type Job = 'purge' | 'audit' | 'key_material';

const RECORD = {
  name: 'job_runs_record',
  text: 'INSERT INTO job_runs (job) VALUES ($1) ON CONFLICT (job) DO UPDATE SET succeeded_at = now()',
};
const READ = {
  name: 'job_runs_read',
  text: 'SELECT job, GREATEST(0, extract(epoch FROM now() - succeeded_at))::float8 AS seconds FROM job_runs',
};

const SEAL_LIMIT_SECONDS = 600;
/** A mail server that greylists, or an address that takes no mail, needs no operator at once. */
const MAIL_LIMIT_SECONDS = 7_200;
/** Eight runs of every 15 minutes. */
const JOB_LIMIT_SECONDS = 7_200;

/** The metrics, and the seconds after which the work is overdue. */
const MEASURES = {
  audit_unsealed_seconds: ['Age of the oldest row of the audit log that is not sealed.', SEAL_LIMIT_SECONDS],
  mail_waiting_seconds: ['Age of the oldest mail in the outbox.', MAIL_LIMIT_SECONDS],
  purge_age_seconds: ['Time since the last purge of any replica.', JOB_LIMIT_SECONDS],
  audit_maintenance_age_seconds: ['Time since the last maintenance of the audit log.', JOB_LIMIT_SECONDS],
  key_maintenance_age_seconds: ['Time since signing keys and secrets were last maintained.', JOB_LIMIT_SECONDS],
} as const;
export type Measure = keyof typeof MEASURES;
export const MEASURE_NAMES = Object.keys(MEASURES) as Measure[];

export type Measurements = Readonly<Record<Measure, number>>;

@Injectable()
export class BackgroundWork {
  constructor(
    private readonly database: Database,
    private readonly seals: SealWriter,
    private readonly outbox: Outbox,
    metrics: MetricsRegistry,
  ) {
    const measure = createSlowGauge(() => this.measure());
    for (const name of MEASURE_NAMES)
      metrics.addGauge(name, MEASURES[name][0], async () => (await measure())?.[name], 'max');
  }

  async recordRun(job: Job): Promise<void> {
    await this.database.rows(RECORD, [job]);
  }

  async measure(): Promise<Measurements> {
    const rows = await this.database.rows<{ job: Job; seconds: number }>(READ, []);
    const sinceRun = (job: Job): number => rows.find((row) => row.job === job)?.seconds ?? 0;
    return {
      audit_unsealed_seconds: await this.seals.measureLag(),
      mail_waiting_seconds: await this.outbox.measureAge(),
      purge_age_seconds: sinceRun('purge'),
      audit_maintenance_age_seconds: sinceRun('audit'),
      key_maintenance_age_seconds: sinceRun('key_material'),
    };
  }
}

export function listOverdue(measured: Measurements): Measure[] {
  return MEASURE_NAMES.filter((name) => measured[name] > MEASURES[name][1]);
}
