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
import { LeaseAnnouncement } from './lease-announcement.js';

/** One poll may be lost without the lease ending. */
const POLLS_PER_LEASE = 3;
/** Short, because every validation reads the database while the feed is lost. */
const MAX_BACKOFF_MS = 1_500;
/**
 * Forces the index, because a plan may be older than the statistics; a forced plan looks expensive, and JIT would
 * compile it at each poll. A heartbeat need not survive a failover, so its commit waits for no standby.
 */
export const FEED_SESSION =
  'LISTEN credential_changes; SET enable_seqscan = off; SET jit = off; SET synchronous_commit = off';
/** Longer than the longest lease and grace, so that a returning replica catches up instead of clearing its cache. */
const RETENTION = '2 days';
/** Shorter, because sessions end all the time. A verifier that was away for longer clears its cache. */
const SESSION_RETENTION = '1 hours';
/**
 * Deletes rows of finished transactions only, so that no recent cursor is overtaken, and rows with transaction ids of
 * another cluster (from a restored dump).
 */
const purgeWhere = (condition: string): string => `DELETE FROM credential_changes WHERE seq IN (
  SELECT seq FROM credential_changes WHERE ${condition} AND at < now() - $1::interval
    AND (xid < pg_snapshot_xmin(pg_current_snapshot()) OR xid >= pg_snapshot_xmax(pg_current_snapshot()))
  ORDER BY at LIMIT $2)`;
const PURGE = purgeWhere('true');
const PURGE_ENDED_SESSIONS = purgeWhere(`kind = 'session'`);
const PURGE_LEASES = `DELETE FROM replica_leases WHERE id IN (
  SELECT id FROM replica_leases WHERE seen_at < now() - $1::interval LIMIT $2)`;

/**
 * Transaction ids can be compared within one epoch only: a promotion, a restart or a crash may assign them anew, and a
 * restored database has its own. The crash of a single backend keeps the start time of the postmaster, but resets the
 * statistics.
 */
const EPOCH = `encode(sha256(convert_to(concat_ws('/', system_identifier, timeline_id,
  extract(epoch FROM pg_postmaster_start_time()), extract(epoch FROM stats_reset),
  (SELECT oid FROM pg_database WHERE datname = current_database()),
  'credential_changes'::regclass::oid), 'UTF8')), 'hex')`;

/**
 * One statement, so that epoch, snapshot, purge mark and changes are consistent; two ordered branches, because each is
 * an index scan that stops at its limit, where an OR would be a sequential scan.
 * Ignores transaction ids that this cluster has not assigned, which a restored dump may bring.
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

/** Polls three times per lease and at each NOTIFY, on a connection of its own, so that the pool does not delay it. */
@Injectable()
export class RevocationFeed implements OnModuleInit, OnApplicationShutdown {
  private readonly leaseMs: number;
  private client: Client | undefined;
  private polling: Promise<void> | undefined;
  private isPollDue = false;
  private pollTimer: NodeJS.Timeout | undefined;
  private isStopped = false;
  private readonly backoff: IBackoffFactory<unknown>;
  /** The state of the backoff; undefined while polls succeed. */
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

  /** Single flight. A notification that arrives during a poll triggers another one after it. */
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

  /** Never rejects. Without an answer the lease ends, and each validation reads the database (fail closed). */
  private async renew(): Promise<void> {
    try {
      // A new connection starts without a cursor, which clears the cache, because it may lead to another server.
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
    // Checked when the answer is applied, because this process may have been suspended since it announced its lease,
    // and revoking calls no longer wait for an announcement that old.
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
      // Precedes the announcement, which must not wait for a standby: each attempt would leave another waiting backend.
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
    // Does not wait for a server that does not respond, which would block the shutdown.
    await Promise.race([client?.end().catch(() => undefined), new Promise(setImmediate)]);
  }
}
