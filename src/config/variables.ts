import { z } from 'zod';
import { DEFAULT_START_TIMEOUT_SECONDS } from '../common/start-watch.js';
import { MAX_LEASE_MS, computeRevocationWaitMs } from './lease.js';
import { limitVariables, MAX_OVERLAP_HOURS } from './limits.js';
import { postgresUrl } from './postgres-url.js';
import {
  flag,
  headerSecret,
  httpUrl,
  leaseMs,
  passwordBlocklist,
  secret,
  serviceName,
  trustProxy,
  wholeNumber,
  word,
  workers,
} from './variable-kinds.js';

/** Long enough for a load balancer to notice that the replica is unready. */
const PRODUCTION_SHUTDOWN_DELAY_MS = 2_000;

/** @returns how long the service continues to serve after a signal */
export function getShutdownDelayMs(value: { NODE_ENV: string; SHUTDOWN_DELAY_MS?: number | undefined }): number {
  return value.SHUTDOWN_DELAY_MS ?? (value.NODE_ENV === 'production' ? PRODUCTION_SHUTDOWN_DELAY_MS : 0);
}

/** @returns how long a call that revokes waits before it answers */
export function getRevocationWaitMs(value: {
  REVOCATION_LEASE_MS: number;
  REVOCATION_WAIT_MS?: number | undefined;
}): number {
  return value.REVOCATION_WAIT_MS ?? computeRevocationWaitMs(value.REVOCATION_LEASE_MS);
}

/** Every variable, with its type and default. */
export const schema = z
  .object({
    NODE_ENV: z
      .enum(['development', 'production', 'test'], { error: 'must be development, production or test' })
      .default('development'),
    SERVICE_NAME: serviceName.default('auth'),
    HOST: word.optional(),
    PORT: wholeNumber(0, 65_535).default(7701),
    INTERNAL_PORT: wholeNumber(0, 65_535).optional(),
    METRICS_PORT: wholeNumber(0, 65_535).optional(),
    WORKERS: workers.default(1),
    START_TIMEOUT_SECONDS: wholeNumber(1, 3_600).default(DEFAULT_START_TIMEOUT_SECONDS),
    DATABASE_URL: postgresUrl,
    DATABASE_POOL_SIZE: wholeNumber(1, 1_000).default(10),
    DATABASE_CONNECT_TIMEOUT_MS: wholeNumber(50, 60_000).default(2_000),
    DATABASE_STATEMENT_TIMEOUT_MS: wholeNumber(50, 60_000).default(3_000),
    SECRET_KEY: secret,
    SECRET_KEY_PREVIOUS: secret.optional(),
    ADMIN_API_KEY: headerSecret.optional(),
    JWT_ISSUER: word.default('platform-auth'),
    JWT_AUDIENCE: word.optional(),
    ACCESS_TOKEN_ALGORITHM: z.enum(['HS256', 'ES256'], { error: 'must be HS256 or ES256' }).default('HS256'),
    SIGNING_KEY_DAYS: wholeNumber(1, 3_650).default(90),
    ACCESS_TOKEN_EXPIRE_MINUTES: wholeNumber(1, 525_600).default(15),
    REFRESH_TOKEN_EXPIRE_DAYS: wholeNumber(1, 3_650).default(14),
    REFRESH_GRACE_SECONDS: wholeNumber(0, 300).default(10),
    SESSION_MAX_AGE_DAYS: wholeNumber(1, 3_650).default(90),
    SESSION_LIMIT_PER_USER: wholeNumber(1, 100_000).default(100),
    REGISTRATION: z.enum(['open', 'closed'], { error: 'must be open or closed' }).default('open'),
    BCRYPT_COST: wholeNumber(4, 16).default(12),
    HASH_THREADS: wholeNumber(1, 128).optional(),
    HASH_QUEUE_LIMIT: wholeNumber(1, 10_000).optional(),
    PASSWORD_MIN_LENGTH: wholeNumber(1, 128).default(8),
    PASSWORD_BLOCKLIST: passwordBlocklist.default('common'),
    KEY_OVERLAP_HOURS: wholeNumber(0, MAX_OVERLAP_HOURS).default(24),
    REVOCATION_LEASE_MS: leaseMs.default(500),
    REVOCATION_WAIT_MS: wholeNumber(0, 2 * MAX_LEASE_MS).optional(),
    OUTAGE_GRACE_SECONDS: wholeNumber(0, 86_400).default(0),
    CREDENTIAL_MEMORY_SIZE: wholeNumber(1, 10_000_000).default(100_000),
    VALIDATE_NODE_REQUIRES_APP: flag,
    TRUST_PROXY: trustProxy,
    LOG_LEVEL: z
      .enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'], {
        error: 'must be fatal, error, warn, info, debug, trace or silent',
      })
      .default('info'),
    LOG_VALIDATIONS: flag,
    LOGGING_SERVICE_URL: httpUrl.optional(),
    LOGGING_APP_ID: word.optional(),
    LOGGING_APP_KEY: word.optional(),
    HEALTH_TIMEOUT_MS: wholeNumber(50, 60_000).default(1_000),
    SHUTDOWN_DELAY_MS: wholeNumber(0, 120_000).optional(),
    SHUTDOWN_DEADLINE_MS: wholeNumber(100, 600_000).default(15_000),
    PURGE_INTERVAL_MINUTES: wholeNumber(1, 10_080).default(15),
    SESSION_KEEP_DAYS: wholeNumber(1, 3_650).default(30),
    CREDENTIAL_KEEP_DAYS: wholeNumber(1, 36_500).default(365),
    AUDIT_RETENTION_DAYS: wholeNumber(1, 36_500).default(365),
    AUDIT_SEAL_KEY: secret.optional(),
    AUDIT_SEAL_INTERVAL_SECONDS: wholeNumber(1, 3_600).default(5),
    ...limitVariables,
  })
  .refine((value) => getRevocationWaitMs(value) >= computeRevocationWaitMs(value.REVOCATION_LEASE_MS), {
    path: ['REVOCATION_WAIT_MS'],
    error: 'must be at least 1.02 × REVOCATION_LEASE_MS + 2',
  })
  .refine((value) => getShutdownDelayMs(value) < value.SHUTDOWN_DEADLINE_MS, {
    path: ['SHUTDOWN_DELAY_MS'],
    error: 'must be shorter than SHUTDOWN_DEADLINE_MS',
  })
  .refine((value) => isDistinct(value.INTERNAL_PORT, value.PORT), {
    path: ['INTERNAL_PORT'],
    error: 'must differ from PORT',
  })
  .refine((value) => isDistinct(value.METRICS_PORT, value.PORT), {
    path: ['METRICS_PORT'],
    error: 'must differ from PORT',
  })
  .refine((value) => isDistinct(value.METRICS_PORT, value.INTERNAL_PORT), {
    path: ['METRICS_PORT'],
    error: 'must differ from INTERNAL_PORT',
  });

/** Port 0 means any free port. */
function isDistinct(port: number | undefined, other: number | undefined): boolean {
  return port === undefined || port === 0 || port !== other;
}
