import { Injectable, type OnApplicationShutdown, type OnModuleInit } from '@nestjs/common';
import { Client } from 'pg';
import { Environment } from '../config/environment.js';
import { Database } from '../database/database.js';
import { errorFields } from '../logging/log-line.js';
import { Log } from '../logging/log.js';
import { RevocationLease, type Change, type Changes } from './revocation-lease.js';

/** Three questions fit into a lease: one may get lost. */
const QUESTIONS_PER_LEASE = 3;
const CHANNEL = 'credential_changes';

/** One statement, so that the horizon and the changes are of one snapshot. */
const ASK = {
  name: 'credential_changes_since',
  text: `SELECT pg_snapshot_xmin(pg_current_snapshot())::text AS horizon,
           COALESCE((SELECT json_agg(json_build_object('seq', seq::text, 'credentialId', credential_id))
                     FROM credential_changes WHERE xid >= $1::text::xid8), '[]') AS changes`,
};
const HORIZON = 'SELECT pg_snapshot_xmin(pg_current_snapshot())::text AS horizon';
/** A purge may remove what a replica has not read yet: so it is itself a change of everything. */
const PURGE = `WITH gone AS (DELETE FROM credential_changes WHERE at < $1 RETURNING 1)
  INSERT INTO credential_changes (credential_id) SELECT NULL WHERE EXISTS (SELECT FROM gone)`;

/**
 * Keeps the lease: asks the database what has changed, on a connection of its own that no exhausted pool can take
 * away, three times a lease and whenever the database says that there is news.
 */
@Injectable()
export class RevocationFeed implements OnModuleInit, OnApplicationShutdown {
  private readonly leaseMs: number;
  private client: Client | undefined;
  private asking: Promise<void> | undefined;
  private hasNews = false;
  private nextQuestion: NodeJS.Timeout | undefined;
  private isStopped = false;

  constructor(
    private readonly lease: RevocationLease,
    private readonly environment: Environment,
    private readonly database: Database,
    private readonly log: Log,
  ) {
    this.leaseMs = environment.revocationLeaseMs;
  }

  async onModuleInit(): Promise<void> {
    if (this.leaseMs > 0) await this.ask();
  }

  async onApplicationShutdown(): Promise<void> {
    this.isStopped = true;
    clearTimeout(this.nextQuestion);
    await this.asking;
    await this.hangUp();
  }

  /** Deletes the record of changes older than a moment. */
  async purge(before: Date): Promise<void> {
    await this.database.rows({ name: 'credential_changes_purge', text: PURGE }, [before]);
  }

  /** One question at a time. News that comes while one is on its way is a reason for the next. */
  private ask(): Promise<void> {
    this.hasNews = true;
    this.asking ??= this.askWhileThereIsNews().finally(() => (this.asking = undefined));
    return this.asking;
  }

  private async askWhileThereIsNews(): Promise<void> {
    clearTimeout(this.nextQuestion);
    let askedAt = 0;
    while (this.hasNews && !this.isStopped) {
      this.hasNews = false;
      askedAt = performance.now();
      await this.renew();
    }
    if (this.isStopped) return;
    const pause = askedAt + this.leaseMs / QUESTIONS_PER_LEASE - performance.now();
    this.nextQuestion = setTimeout(() => void this.ask(), Math.max(0, pause)).unref();
  }

  /** Never fails: without an answer the lease runs out, and the database is asked for each credential. */
  private async renew(): Promise<void> {
    try {
      const client = (this.client ??= await this.connect());
      await this.lease.renew((since) => changesSince(client, since));
    } catch (error) {
      if (this.lease.isHeld) this.log.warning('revocation_feed_lost', { error: errorFields(error) });
      await this.hangUp();
    }
  }

  private async connect(): Promise<Client> {
    const client = new Client({
      connectionString: this.environment.databaseUrl,
      application_name: 'platform-auth-revocations',
      connectionTimeoutMillis: this.environment.databaseConnectTimeoutMs,
      statement_timeout: this.leaseMs,
      query_timeout: this.leaseMs,
      keepAlive: true,
    });
    // A lost connection makes the next question fail.
    client.on('error', () => undefined);
    client.on('notification', () => void this.ask());
    try {
      await client.connect();
      await client.query(`LISTEN ${CHANNEL}`);
      return client;
    } catch (error) {
      await client.end().catch(() => undefined);
      throw error;
    }
  }

  private async hangUp(): Promise<void> {
    const { client } = this;
    this.client = undefined;
    // Not awaited for long: a server that does not answer does not answer a farewell either.
    await Promise.race([client?.end().catch(() => undefined), new Promise(setImmediate)]);
  }
}

async function changesSince(client: Client, since: bigint | undefined): Promise<Changes> {
  if (since === undefined) {
    const { rows } = await client.query<{ horizon: string }>(HORIZON);
    return { horizon: BigInt(rows[0]?.horizon ?? 0), changes: [] };
  }
  const { rows } = await client.query<{ horizon: string; changes: Change[] }>({ ...ASK, values: [String(since)] });
  return { horizon: BigInt(rows[0]?.horizon ?? 0), changes: rows[0]?.changes ?? [] };
}
