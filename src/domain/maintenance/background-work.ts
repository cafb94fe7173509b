// Measures how late background work is: sealing, mails and jobs. These can fail while requests, and so /health,
// succeed, for example when the disk of PostgreSQL is full.

import { Injectable } from '@nestjs/common';
import { SealWriter } from '../audit/seals/seal-writer.js';
import { Database } from '../../foundation/database/database.js';
import { Outbox } from '../mail/outbox.js';
import { cacheQuery, MetricsRegistry } from '../../foundation/metrics/metrics-registry.js';

const RECORD = {
  name: 'job_runs_record',
  text: 'INSERT INTO job_runs (job) VALUES ($1) ON CONFLICT (job) DO UPDATE SET succeeded_at = now()',
};
const READ = {
  name: 'job_runs_read',
  text: 'SELECT job, GREATEST(0, extract(epoch FROM now() - succeeded_at))::float8 AS seconds FROM job_runs',
};

/** The measures, and the seconds after which each is overdue. A mail may wait for a server that greylists. */
const LIMITS = {
  audit_unsealed_seconds: 600,
  mail_waiting_seconds: 7_200,
  purge_age_seconds: 7_200,
  audit_maintenance_age_seconds: 7_200,
  key_maintenance_age_seconds: 7_200,
} as const;
type Measure = keyof typeof LIMITS;
export const MEASURE_NAMES = Object.keys(LIMITS) as Measure[];
type Job = 'purge' | 'audit_maintenance' | 'key_maintenance';

export interface Measurement {
  readonly name: string;
  readonly seconds: number;
  readonly is_overdue: boolean;
}

@Injectable()
export class BackgroundWork {
  constructor(
    private readonly database: Database,
    private readonly seals: SealWriter,
    private readonly outbox: Outbox,
    metrics: MetricsRegistry,
  ) {
    const measure = cacheQuery(() => this.measureWork());
    const help = 'Age of the oldest work that is not done, or of the last success of a job in any replica.';
    for (const name of MEASURE_NAMES) {
      const read = async () => (await measure())?.find((measured) => measured.name === name)?.seconds;
      metrics.addGauge(name, help, read, 'max');
    }
  }

  async recordRun(job: Job): Promise<void> {
    await this.database.rows(RECORD, [job]);
  }

  async measureWork(): Promise<Measurement[]> {
    const rows = await this.database.rows<{ job: string; seconds: number }>(READ, []);
    const measured = new Map(rows.map(({ job, seconds }) => [`${job}_age_seconds`, seconds]))
      .set('audit_unsealed_seconds', await this.seals.measureLag())
      .set('mail_waiting_seconds', (await this.outbox.measureBacklog()).seconds);
    return MEASURE_NAMES.map((name) => {
      const seconds = Math.floor(measured.get(name) ?? 0);
      return { name, seconds, is_overdue: seconds > LIMITS[name] };
    });
  }
}
