import { Injectable, type OnApplicationShutdown, type OnModuleInit } from '@nestjs/common';
import { ExponentialBackoff, halfJitterGenerator, type IBackoff, type IBackoffFactory } from 'cockatiel';
import { Client } from 'pg';
import { Environment } from '../config/environment.js';
import { Database } from '../database/database.js';
import { errorFields } from '../logging/log-line.js';
import { Log } from '../logging/log.js';
import { answerTo, CHANGES_SINCE, snapshotOf, type Answer, type Reading } from './change-feed.js';
import { LeaseAnnouncement } from './lease-announcement.js';
import { RevocationLease } from './revocation-lease.js';

/** Three questions fit into a lease: one may get lost. */
const QUESTIONS_PER_LEASE = 3;
/** Meanwhile each validation asks the database itself, so it should not take long to notice that it is back. */
const MAX_PAUSE_MS = 1_500;
/**
 * The index on the transaction is right however many rows there are, and a plan may be older than the statistics.
 * A heartbeat that a failover loses is repeated, so it need not wait for a standby.
 */
const PREPARE = 'LISTEN credential_changes; SET enable_seqscan = off; SET synchronous_commit = off';
/** Longer than the longest lease and grace, so that a returning replica catches up instead of clearing its cache. */
const KEEP = '2 days';
/** Only finished transactions, so that a cursor that was just given is never older than the purge. */
const PURGE = `DELETE FROM credential_changes WHERE seq IN (
  SELECT seq FROM credential_changes
  WHERE at < now() - $1::interval AND xid < pg_snapshot_xmin(pg_current_snapshot()) ORDER BY at LIMIT $2)`;
const PURGE_LEASES = `DELETE FROM replica_leases WHERE id IN (
  SELECT id FROM replica_leases WHERE seen_at < now() - $1::interval LIMIT $2)`;

/**
 * Keeps the lease: asks the database what has changed, on a connection of its own that no exhausted pool can take
 * away, three times a lease and whenever the database says that there is news.
 */
@Injectable()
export class RevocationFeed implements OnModuleInit, OnApplicationShutdown {
  private readonly leaseMs: number;
  private readonly announcement: LeaseAnnouncement;
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
    this.announcement = new LeaseAnnouncement(this.leaseMs);
    this.backoff = new ExponentialBackoff({
      initialDelay: Math.min(this.leaseMs / QUESTIONS_PER_LEASE, MAX_PAUSE_MS),
      maxDelay: MAX_PAUSE_MS,
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

  /** Deletes old changes and announcements; see {@link Database.purge}. */
  async purge(lock: number): Promise<void> {
    await this.database.purge(PURGE, KEEP, lock);
    await this.database.purge(PURGE_LEASES, KEEP, lock);
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
      // A new connection starts from an empty cache: it may lead to another server.
      const isNew = this.client === undefined;
      const client = (this.client ??= await this.connect());
      await this.announcement.keepUp(client);
      await this.lease.renew((cursor) => changesSince(client, isNew ? undefined : cursor));
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
      // First: an announcement must not wait for a standby, or each attempt would leave a backend that does.
      await client.query(PREPARE);
      this.announcement.repeat();
      await this.announcement.keepUp(client);
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

async function changesSince(client: Client, cursor: string | undefined): Promise<Answer> {
  const { rows } = await client.query<Reading>({ ...CHANGES_SINCE, values: [snapshotOf(cursor)] });
  const [reading] = rows;
  if (!reading) throw new Error('PostgreSQL has no WAL statistics');
  return answerTo(cursor, reading);
}
