import { Injectable, type OnApplicationShutdown } from '@nestjs/common';
import { Redis } from 'ioredis';
import { RateLimiterPostgres, RateLimiterRedis, type RateLimiterStoreAbstract } from 'rate-limiter-flexible';
import { DataSource } from 'typeorm';
import { ProblemException } from '../common/problem.exception.js';
import { problems } from '../common/problems.js';
import { Environment } from '../config/environment.js';
import type { Limit } from '../config/limits.js';
import { deriveKey, mac } from '../crypto/secret.js';
import { Database } from '../database/database.js';
import { errorFields } from '../logging/log-line.js';
import { Log } from '../logging/log.js';

const TABLE = 'throttle_counters';
const REDIS_TIMEOUT_MS = 1_000;
const LONGEST_RECONNECT_DELAY_MS = 2_000;

const DELETE_EXPIRED = `DELETE FROM ${TABLE} WHERE key IN (
  SELECT key FROM ${TABLE} WHERE expire < extract(epoch FROM $1::timestamptz) * 1000 LIMIT $2
  FOR UPDATE SKIP LOCKED)`;

/** Where all replicas count together: PostgreSQL, or the Redis of those who have one. */
@Injectable()
export class CounterStore implements OnApplicationShutdown {
  private readonly redis: Redis | undefined;
  private readonly digestKey;

  constructor(
    environment: Environment,
    private readonly dataSource: DataSource,
    private readonly database: Database,
    log: Log,
  ) {
    this.digestKey = deriveKey(environment.secretKey, 'platform-auth/throttle-keys/v1');
    if (environment.redisUrl !== undefined) this.redis = connect(environment.redisUrl, log);
  }

  /** @param name of what is counted; it stands in the store, before the digest of whom */
  counter(name: string, { points, seconds }: Limit): RateLimiterStoreAbstract {
    const options = { keyPrefix: name, points, duration: seconds };
    if (this.redis) return new RateLimiterRedis({ ...options, storeClient: this.redis, rejectIfRedisNotReady: true });
    return new RateLimiterPostgres({
      ...options,
      storeClient: this.dataSource,
      storeType: 'typeorm',
      tableName: TABLE,
      // Our migration makes the table, and our job purges it.
      tableCreated: true,
      clearExpiredByTimeout: false,
    });
  }

  /** Whom a count is about. The store, and a dump of it, does not reveal the addresses that tried (ASVS 14.2). */
  keyOf(...parts: string[]): string {
    return mac(this.digestKey, parts.join('\n')).toString('base64url');
  }

  /** @returns the number of rows deleted; Redis forgets by itself */
  async purge(before: Date, lock: number): Promise<number> {
    return this.redis ? 0 : this.database.purge(DELETE_EXPIRED, before, lock);
  }

  onApplicationShutdown(): void {
    this.redis?.disconnect();
  }
}

/**
 * The store's answer, or 503: whoever cannot count cannot let anyone guess.
 * @throws {ProblemException} unavailable
 */
export async function counted<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (cause) {
    throw new ProblemException(problems.unavailable, { cause });
  }
}

function connect(url: string, log: Log): Redis {
  const redis = new Redis(url, {
    keyPrefix: 'platform-auth:',
    connectTimeout: REDIS_TIMEOUT_MS,
    commandTimeout: REDIS_TIMEOUT_MS,
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    retryStrategy: (attempt) => Math.min(attempt * 100, LONGEST_RECONNECT_DELAY_MS),
  });
  // Each command that fails says so to its caller. The log has a line for each change.
  let isUsable = true;
  redis.on('error', (error) => {
    if (isUsable) log.warning('redis_unusable', { error: errorFields(error) });
    isUsable = false;
  });
  redis.on('ready', () => {
    if (!isUsable) log.info('redis_usable');
    isUsable = true;
  });
  return redis;
}
