import { Injectable, type OnApplicationShutdown, type OnModuleInit } from '@nestjs/common';
import { ExponentialBackoff, halfJitterGenerator, type IBackoff, type IBackoffFactory } from 'cockatiel';
import { Client } from 'pg';
import { Environment } from '../config/environment.js';
import { Database } from '../database/database.js';
import { errorFields } from '../logging/log-line.js';
import { Log } from '../logging/log.js';
import { RevocationLease, type Change, type Changes } from './revocation-lease.js';

/** Three questions fit into a lease: one may get lost. */
const QUESTIONS_PER_LEASE = 3;
/** Meanwhile each validation asks the database itself, so it should not take long to notice that it is back. */
const LONGEST_PAUSE_MS = 1_500;
const CHANNEL = 'credential_changes';

/** One statement, so that the horizon and the changes are of one snapshot. */
const ASK = {
  name: 'credential_changes_since',
  text: `SELECT pg_snapshot_xmin(pg_current_snapshot())::text AS horizon,
           (SELECT xid::text FROM credential_changes ORDER BY credential_changes.xid LIMIT 1) AS oldest,
           COALESCE((SELECT json_agg(json_build_object('seq', seq::text, 'credentialId', credential_id))
                     FROM credential_changes WHERE xid >= $1::text::xid8), '[]') AS changes`,
};
const HORIZON = 'SELECT pg_snapshot_xmin(pg_current_snapshot())::text AS horizon';
/** Longer than the longest lease with the longest grace: so that nobody who is back has to forget everything. */
const KEEP = '2 days';
/**
 * The lowest transactions first, and never the highest of those that are old enough: the lowest one that is left tells
 * whoever has read less far that something may be missing. No transaction below it can commit any more.
 */
const PURGE = `DELETE FROM credential_changes WHERE seq IN (
  SELECT seq FROM credential_changes WHERE xid < (
    SELECT xid FROM credential_changes
    WHERE at < now() - $1::interval AND xid < pg_snapshot_xmin(pg_current_snapshot()) ORDER BY xid DESC LIMIT 1)
  ORDER BY xid LIMIT $2)`;

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
  private readonly backoff: IBackoffFactory<unknown>;
  /** Undefined while questions are answered. */
  private failure: IBackoff<unknown> | undefined;

  constructor(
    private readonly lease: RevocationLease,
    private readonly environment: Environment,
    private readonly database: Database,
    private readonly log: Log,
  ) {
    this.leaseMs = environment.revocationLeaseMs;
    this.backoff = new ExponentialBackoff({
      initialDelay: Math.min(this.leaseMs / QUESTIONS_PER_LEASE, LONGEST_PAUSE_MS),
      maxDelay: LONGEST_PAUSE_MS,
      generator: halfJitterGenerator,
    });
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

  /** Deletes old changes; see {@link Database.purge}. */
  async purge(lock: number): Promise<void> {
    await this.database.purge(PURGE, KEEP, lock);
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
    const pause = this.failure?.duration ?? askedAt + this.leaseMs / QUESTIONS_PER_LEASE - performance.now();
    this.nextQuestion = setTimeout(() => void this.ask(), Math.max(0, pause)).unref();
  }

  /** Never fails: without an answer the lease runs out, and the database is asked for each credential. */
  private async renew(): Promise<void> {
    try {
      const client = (this.client ??= await this.connect());
      await this.lease.renew((since) => changesSince(client, since));
      if (this.failure) this.log.info('revocation_feed_back');
      this.failure = undefined;
    } catch (error) {
      if (!this.failure) this.log.warning('revocation_feed_lost', { error: errorFields(error) });
      this.failure = (this.failure ?? this.backoff).next(undefined);
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

interface Answer {
  readonly horizon: string;
  readonly oldest: string | null;
  readonly changes: Change[];
}

async function changesSince(client: Client, since: bigint | undefined): Promise<Changes> {
  if (since === undefined) {
    const { rows } = await client.query<{ horizon: string }>(HORIZON);
    return { horizon: BigInt(rows[0]?.horizon ?? 0), changes: [] };
  }
  const { rows } = await client.query<Answer>({ ...ASK, values: [String(since)] });
  const { horizon, oldest, changes } = rows[0] ?? { horizon: 0, oldest: null, changes: [] };
  return { horizon: BigInt(horizon), oldest: oldest === null ? undefined : BigInt(oldest), changes };
}
