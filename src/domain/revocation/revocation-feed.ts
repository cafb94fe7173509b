import { Injectable, type OnApplicationShutdown, type OnModuleInit } from '@nestjs/common';
import { ExponentialBackoff, halfJitterGenerator, type IBackoff, type IBackoffFactory } from 'cockatiel';
import { Client } from 'pg';
import { Environment } from '../../foundation/config/environment.js';
import { Database, type Statement } from '../../foundation/database/database.js';
import { Log, toErrorFields } from '../../foundation/logging/log.js';
import {
  ChangeLog,
  MAX_CHANGES,
  parseSnapshot,
  toAnswer,
  type Answer,
  type FeedRow,
} from '../../../packages/lease/src/change-feed.js';
import { RevocationLease } from '../../../packages/lease/src/lease.js';
import { LeaseAnnouncement } from './propagation.js';

/** A poll may get lost without the lease ending. */
const POLLS_PER_LEASE = 3;
/** Short, because every validation reads the database until the feed is back. */
const MAX_BACKOFF_MS = 1_500;
/**
 * The index is right for any number of rows, and a plan may be older than the statistics. Up to PostgreSQL 17 JIT would
 * compile each poll, for the high cost of a scan that is off. A heartbeat that a failover loses is repeated.
 */
export const FEED_SESSION =
  'LISTEN credential_changes; SET enable_seqscan = off; SET jit = off; SET synchronous_commit = off';
/** Longer than the longest lease and grace, so that a returning replica catches up instead of clearing its cache. */
const RETENTION = '2 days';
/** Verifiers poll all the time, and sessions end all the time. A verifier that was away for longer starts anew. */
const SESSION_RETENTION = '1 hours';
/** Only finished transactions, so that no fresh cursor is overtaken, and those of another cluster (from a restored dump). */
const purgeWhere = (condition: string): string => `DELETE FROM credential_changes WHERE seq IN (
  SELECT seq FROM credential_changes WHERE ${condition} AND at < now() - $1::interval
    AND (xid < pg_snapshot_xmin(pg_current_snapshot()) OR xid >= pg_snapshot_xmax(pg_current_snapshot()))
  ORDER BY at LIMIT $2)`;
const PURGE = purgeWhere('true');
const PURGE_ENDED_SESSIONS = purgeWhere(`kind = 'session'`);
const PURGE_LEASES = `DELETE FROM replica_leases WHERE id IN (
  SELECT id FROM replica_leases WHERE seen_at < now() - $1::interval LIMIT $2)`;

/**
 * Transaction ids can be compared only within one epoch: a promotion, a restart and a crash may assign them anew, and a
 * restored database has its own. The crash of one backend keeps the postmaster's start time, and resets the statistics.
 */
const EPOCH = `encode(sha256(convert_to(concat_ws('/', system_identifier, timeline_id,
  extract(epoch FROM pg_postmaster_start_time()), extract(epoch FROM stats_reset),
  (SELECT oid FROM pg_database WHERE datname = current_database()), 'credential_changes'::regclass::oid), 'UTF8')), 'hex')`;

/**
 * One statement, so that epoch, snapshot, purge mark and changes are consistent. Two branches, because the planner uses a
 * sequential scan for an OR; ordered, so that each is an index scan that stops at its limit. A dump that is restored into
 * another cluster brings transaction ids that this one has not assigned: they are ignored.
 */
export const CHANGES_SINCE: Statement = {
  name: 'credential_changes_since',
  text: `SELECT ${EPOCH} AS epoch, pg_current_snapshot()::text AS snapshot,
      COALESCE((SELECT purged::text FROM credential_change_purges
                WHERE purged < pg_snapshot_xmax(pg_current_snapshot())), '0') AS purged,
      (SELECT COALESCE(json_agg(json_build_object('kind', kind, 'id', credential_id, 'xid', xid::text)), '[]') FROM (
        (SELECT kind, credential_id, xid FROM credential_changes
         WHERE xid >= pg_snapshot_xmax($1::pg_snapshot) AND xid < pg_snapshot_xmax(pg_current_snapshot())
         ORDER BY xid LIMIT ${MAX_CHANGES + 1})
        UNION ALL
        (SELECT kind, credential_id, xid FROM credential_changes
         WHERE xid = ANY (ARRAY(SELECT pg_snapshot_xip($1::pg_snapshot))) ORDER BY xid LIMIT ${MAX_CHANGES + 1})
      ) AS changed) AS changes
    FROM pg_control_system(), pg_control_checkpoint(), pg_stat_wal`,
};

/** Polls for changes three times per lease and at each NOTIFY, on its own connection, so that the pool does not delay it. */
@Injectable()
export class RevocationFeed implements OnModuleInit, OnApplicationShutdown {
  private readonly leaseMs: number;
  private client: Client | undefined;
  private polling: Promise<void> | undefined;
  private isPollDue = false;
  private pollTimer: NodeJS.Timeout | undefined;
  private isStopped = false;
  private readonly backoff: IBackoffFactory<unknown>;
  /** Undefined while polls succeed. */
  private failure: IBackoff<unknown> | undefined;

  constructor(
    private readonly lease: RevocationLease,
    private readonly changes: ChangeLog,
    private readonly announcement: LeaseAnnouncement,
    private readonly environment: Environment,
    private readonly database: Database,
    private readonly log: Log,
  ) {
    this.leaseMs = environment.revocationLeaseMs;
    this.backoff = new ExponentialBackoff({
      initialDelay: Math.min(this.leaseMs / POLLS_PER_LEASE, MAX_BACKOFF_MS),
      maxDelay: MAX_BACKOFF_MS,
      generator: halfJitterGenerator,
    });
  }

  async onModuleInit(): Promise<void> {
    if (this.leaseMs > 0) await this.poll();
  }

  async onApplicationShutdown(): Promise<void> {
    this.isStopped = true;
    clearTimeout(this.pollTimer);
    await this.polling;
    await this.disconnect();
  }

  /** Deletes old changes and announcements; see {@link Database.purge}. */
  async purge(): Promise<void> {
    await this.database.purge(PURGE, RETENTION);
    await this.database.purge(PURGE_ENDED_SESSIONS, SESSION_RETENTION);
    await this.database.purge(PURGE_LEASES, RETENTION);
  }

  /** Single flight: a notification that arrives during a poll triggers another one after it. */
  private poll(): Promise<void> {
    this.isPollDue = true;
    this.polling ??= this.pollWhileDue().finally(() => (this.polling = undefined));
    return this.polling;
  }

  private async pollWhileDue(): Promise<void> {
    clearTimeout(this.pollTimer);
    let polledAt = 0;
    while (this.isPollDue && !this.isStopped) {
      this.isPollDue = false;
      polledAt = performance.now();
      await this.renew();
    }
    if (this.isStopped) return;
    const delay = this.failure?.duration ?? polledAt + this.leaseMs / POLLS_PER_LEASE - performance.now();
    this.pollTimer = setTimeout(() => void this.poll(), Math.max(0, delay)).unref();
  }

  /** Never rejects. Without an answer the lease ends, and each validation reads the database: it fails closed. */
  private async renew(): Promise<void> {
    try {
      // No cursor on a new connection, which clears the cache: it may lead to another server.
      const isNew = this.client === undefined;
      const client = (this.client ??= await this.connect());
      await this.announcement.announceIfDue(client);
      await this.lease.renew((cursor) => this.readChanges(client, isNew ? undefined : cursor));
      if (this.failure) this.log.info('revocation_feed_back');
      this.failure = undefined;
    } catch (error) {
      if (!this.failure) this.log.warn('revocation_feed_lost', { error: toErrorFields(error) });
      this.failure = (this.failure ?? this.backoff).next(undefined);
      await this.disconnect();
    }
  }

  private async readChanges(client: Client, cursor: string | undefined): Promise<Answer> {
    const { rows } = await client.query<FeedRow>({ ...CHANGES_SINCE, values: [parseSnapshot(cursor)] });
    const [row] = rows;
    if (!row) throw new Error('PostgreSQL has no WAL statistics');
    // At the moment that the answer is applied: this process may have been frozen while its announcement was in flight, and
    // revoking calls no longer wait for a lease that they do not see.
    if (!this.announcement.isCurrent) throw new Error('The announcement of the lease is too old');
    const answer = toAnswer(cursor, row);
    this.changes.append(answer);
    return answer;
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
    // A lost connection makes the next poll fail.
    client.on('error', () => undefined);
    client.on('notification', () => void this.poll());
    try {
      await client.connect();
      // First: an announcement must not wait for a standby, or each attempt would leave a backend that does.
      await client.query(FEED_SESSION);
      this.announcement.makeDue();
      await this.announcement.announceIfDue(client);
      return client;
    } catch (error) {
      await client.end().catch(() => undefined);
      throw error;
    }
  }

  private async disconnect(): Promise<void> {
    const { client } = this;
    this.client = undefined;
    // Not awaited: a server that does not respond would block the shutdown.
    await Promise.race([client?.end().catch(() => undefined), new Promise(setImmediate)]);
  }
}
