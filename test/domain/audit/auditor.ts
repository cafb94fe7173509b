import { Client } from 'pg';
import type { Verification } from '../../../src/domain/audit/seals/seal-verifier.js';
import { SealJob } from '../../../src/domain/maintenance/jobs.js';
import { Cli } from '../../support/cli.js';
import { MASTER_KEY } from '../../support/settings.js';
import { type TestApp } from '../../support/test-app.js';
import type { TestDatabase } from '../../support/test-database.js';
import { withWrappedQueries } from '../../support/wrapped-queries.js';

/** An operator with the command line, who may read the database and has the key. */
export class Auditor {
  readonly cli: Cli;

  constructor(database: TestDatabase, variables: Record<string, string> = { MASTER_KEY }) {
    this.cli = new Cli('http://127.0.0.1:9', { DATABASE_URL: database.url, ...variables });
  }

  /** @returns the report; its exit code must fit its findings */
  async verify(...parameters: string[]): Promise<Verification> {
    const { code, stdout, stderr } = await this.cli.run('audit', 'verify', '--json', ...parameters);
    if (stdout === '') throw new Error(stderr);
    const report = JSON.parse(stdout) as Verification;
    expect(code).toBe(report.findings.length === 0 ? 0 : 1);
    return report;
  }

  /** Each finding as its kind and what it is about. */
  async findings(...parameters: string[]): Promise<string[]> {
    const { findings } = await this.verify(...parameters);
    return findings.map(({ kind, row, seal }) => `${kind} ${row ?? seal ?? ''}`.trim()).sort();
  }

  async checkpoint(): Promise<string> {
    return (await this.cli.ok('audit', 'checkpoint')).trim();
  }
}

/** Seals what was committed, and copies the events of the seals. @returns the number of sealed rows */
export async function seal(app: TestApp): Promise<number> {
  const job = app.nest.get(SealJob);
  const sealed = await job.sealNewRows();
  await job.copyNewEvents();
  return sealed;
}

/** Runs work while seals have PostgreSQL's time moved by an interval, such as `-400 days`. */
export async function whileSealing<Result>(interval: string, work: () => Promise<Result>): Promise<Result> {
  const at = `clock_timestamp() + interval '${interval}' AS at`;
  return withWrappedQueries(
    (query) =>
      function (sql, values) {
        return query.call(this, sql.replace('clock_timestamp() AS at', at), values);
      },
    work,
  );
}

/** What a superuser does who switches the triggers off. */
export async function tamper(database: TestDatabase, ...statements: string[]): Promise<void> {
  const client = new Client({ connectionString: database.url });
  await client.connect();
  try {
    const switchTriggers = (state: string) =>
      client.query(`ALTER TABLE audit_events ${state} TRIGGER audit_events_no_change;
        ALTER TABLE audit_seals ${state} TRIGGER audit_seals_no_change`);
    await switchTriggers('DISABLE');
    for (const statement of statements) await client.query(statement);
    await switchTriggers('ENABLE ALWAYS');
  } finally {
    await client.end();
  }
}

/** A row as a hand on the database writes it. */
export function insertion(id: string, time: string, more: Readonly<Record<string, string>> = {}): string {
  const columns = {
    id: `'${id}'`,
    time,
    event: `'user.registered'`,
    actor_door: `'open'`,
    count: '1',
    details: `'{}'`,
  };
  const all = { ...columns, ...more };
  return `INSERT INTO audit_events (${Object.keys(all).join(', ')}) VALUES (${Object.values(all).join(', ')})`;
}
