import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { parse } from 'dotenv';
import { z } from 'zod';
import { limitsOf, limitVariables, type Limits } from './limits.js';
import {
  flag,
  httpUrl,
  passwordBlocklist,
  postgresUrl,
  secret,
  trustProxy,
  wholeNumber,
  word,
} from './variable-kinds.js';

/** Raw variables by name, as a process or an environment file holds them. */
export type Variables = Readonly<Record<string, string | undefined>>;

const schema = z
  .object({
    NODE_ENV: z
      .enum(['development', 'production', 'test'], { error: 'must be development, production or test' })
      .default('development'),
    HOST: word.optional(),
    PORT: wholeNumber(0, 65_535).default(7701),
    DATABASE_URL: postgresUrl,
    DATABASE_POOL_SIZE: wholeNumber(1, 1_000).default(10),
    DATABASE_CONNECT_TIMEOUT_MS: wholeNumber(50, 60_000).default(2_000),
    DATABASE_STATEMENT_TIMEOUT_MS: wholeNumber(50, 60_000).default(3_000),
    SECRET_KEY: secret,
    ADMIN_API_KEY: secret.optional(),
    JWT_ISSUER: word.default('platform-auth'),
    JWT_AUDIENCE: word.optional(),
    ACCESS_TOKEN_EXPIRE_MINUTES: wholeNumber(1, 525_600).default(15),
    REFRESH_TOKEN_EXPIRE_DAYS: wholeNumber(1, 3_650).default(14),
    REFRESH_GRACE_SECONDS: wholeNumber(0, 300).default(10),
    SESSION_MAX_AGE_DAYS: wholeNumber(1, 3_650).default(90),
    REGISTRATION: z.enum(['open', 'closed'], { error: 'must be open or closed' }).default('open'),
    BCRYPT_COST: wholeNumber(4, 16).default(12),
    HASH_THREADS: wholeNumber(1, 128).default(availableParallelism()),
    HASH_QUEUE_LIMIT: wholeNumber(1, 10_000).default(100),
    PASSWORD_MIN_LENGTH: wholeNumber(1, 128).default(8),
    PASSWORD_BLOCKLIST: passwordBlocklist.default('common'),
    KEY_OVERLAP_HOURS: wholeNumber(0, 8_760).default(24),
    VALIDATE_NODE_REQUIRES_APP: flag,
    TRUST_PROXY: trustProxy,
    LOG_LEVEL: z
      .enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'], {
        error: 'must be fatal, error, warn, info, debug, trace or silent',
      })
      .default('info'),
    LOGGING_SERVICE_URL: httpUrl.optional(),
    LOGGING_APP_ID: word.optional(),
    LOGGING_APP_KEY: word.optional(),
    HEALTH_TIMEOUT_MS: wholeNumber(50, 60_000).default(1_000),
    SHUTDOWN_DELAY_MS: wholeNumber(0, 120_000).optional(),
    SHUTDOWN_DEADLINE_MS: wholeNumber(100, 600_000).default(15_000),
    PURGE_INTERVAL_MINUTES: wholeNumber(1, 10_080).default(15),
    SESSION_KEEP_DAYS: wholeNumber(1, 3_650).default(30),
    CREDENTIAL_KEEP_DAYS: wholeNumber(1, 36_500).default(365),
    ...limitVariables,
  })
  .refine((value) => (value.SHUTDOWN_DELAY_MS ?? 0) < value.SHUTDOWN_DEADLINE_MS, {
    path: ['SHUTDOWN_DELAY_MS'],
    error: 'must be shorter than SHUTDOWN_DEADLINE_MS',
  });

/** Everything that can be configured, validated, with its unit in its name. */
export class Environment {
  readonly nodeEnv!: 'development' | 'production' | 'test';
  readonly host!: string;
  readonly port!: number;
  readonly databaseUrl!: string;
  readonly databasePoolSize!: number;
  readonly databaseConnectTimeoutMs!: number;
  readonly databaseStatementTimeoutMs!: number;
  readonly secretKey!: string;
  readonly adminApiKey!: string | undefined;
  readonly jwtIssuer!: string;
  readonly jwtAudience!: string | undefined;
  readonly accessTokenTtlMinutes!: number;
  readonly refreshTokenTtlDays!: number;
  readonly refreshGraceSeconds!: number;
  readonly sessionMaxAgeDays!: number;
  readonly registrationOpen!: boolean;
  readonly bcryptCost!: number;
  readonly hashThreads!: number;
  readonly hashQueueLimit!: number;
  readonly passwordMinLength!: number;
  /** `common` (the list that ships), `off`, or the path of a file with one password a line. */
  readonly passwordBlocklist!: string;
  readonly keyOverlapHours!: number;
  readonly validateNodeRequiresApp!: boolean;
  readonly trustProxy!: boolean | number | string;
  readonly logLevel!: string;
  readonly loggingServiceUrl!: string | undefined;
  readonly loggingAppId!: string | undefined;
  readonly loggingAppKey!: string | undefined;
  readonly healthTimeoutMs!: number;
  readonly shutdownDelayMs!: number;
  readonly shutdownDeadlineMs!: number;
  readonly purgeIntervalMinutes!: number;
  readonly sessionKeepDays!: number;
  readonly credentialKeepDays!: number;
  readonly redisUrl!: string | undefined;
  readonly limits!: Limits;
}

/** A start that must not happen; each problem names a variable and never shows its value. */
export class InvalidEnvironment extends Error {
  constructor(readonly problems: string[]) {
    super(`The configuration is not usable:\n${problems.map((problem) => `  - ${problem}`).join('\n')}`);
  }
}

/**
 * Validates raw variables.
 * @param variables as {@link readVariables} returns them; an empty value counts as unset
 * @returns the typed environment with every default filled in
 * @throws {InvalidEnvironment} naming every variable that is missing or bad
 */
export function parseEnvironment(variables: Variables): Environment {
  const value = validated(variables);
  const isProduction = value.NODE_ENV === 'production';
  return {
    nodeEnv: value.NODE_ENV,
    host: value.HOST ?? (isProduction ? '0.0.0.0' : '127.0.0.1'),
    port: value.PORT,
    databaseUrl: value.DATABASE_URL,
    databasePoolSize: value.DATABASE_POOL_SIZE,
    databaseConnectTimeoutMs: value.DATABASE_CONNECT_TIMEOUT_MS,
    databaseStatementTimeoutMs: value.DATABASE_STATEMENT_TIMEOUT_MS,
    secretKey: value.SECRET_KEY,
    adminApiKey: value.ADMIN_API_KEY,
    jwtIssuer: value.JWT_ISSUER,
    jwtAudience: value.JWT_AUDIENCE,
    accessTokenTtlMinutes: value.ACCESS_TOKEN_EXPIRE_MINUTES,
    refreshTokenTtlDays: value.REFRESH_TOKEN_EXPIRE_DAYS,
    refreshGraceSeconds: value.REFRESH_GRACE_SECONDS,
    sessionMaxAgeDays: value.SESSION_MAX_AGE_DAYS,
    registrationOpen: value.REGISTRATION === 'open',
    bcryptCost: value.BCRYPT_COST,
    hashThreads: value.HASH_THREADS,
    hashQueueLimit: value.HASH_QUEUE_LIMIT,
    passwordMinLength: value.PASSWORD_MIN_LENGTH,
    passwordBlocklist: value.PASSWORD_BLOCKLIST,
    keyOverlapHours: value.KEY_OVERLAP_HOURS,
    validateNodeRequiresApp: value.VALIDATE_NODE_REQUIRES_APP,
    trustProxy: value.TRUST_PROXY,
    logLevel: value.LOG_LEVEL,
    loggingServiceUrl: value.LOGGING_SERVICE_URL,
    loggingAppId: value.LOGGING_APP_ID,
    loggingAppKey: value.LOGGING_APP_KEY,
    healthTimeoutMs: value.HEALTH_TIMEOUT_MS,
    shutdownDelayMs: value.SHUTDOWN_DELAY_MS ?? (isProduction ? 2_000 : 0),
    shutdownDeadlineMs: value.SHUTDOWN_DEADLINE_MS,
    purgeIntervalMinutes: value.PURGE_INTERVAL_MINUTES,
    sessionKeepDays: value.SESSION_KEEP_DAYS,
    credentialKeepDays: value.CREDENTIAL_KEEP_DAYS,
    redisUrl: value.REDIS_URL,
    limits: limitsOf(value),
  };
}

function validated(variables: Variables): z.output<typeof schema> {
  const isSet = ([, value]: [string, string | undefined]): boolean => value !== undefined && value !== '';
  const parsed = schema.safeParse(Object.fromEntries(Object.entries(variables).filter(isSet)));
  if (parsed.success) return parsed.data;
  throw new InvalidEnvironment(parsed.error.issues.map(({ path, message }) => `${path.join('.')} ${message}`));
}

/**
 * The one variable that the migrations need.
 * @throws {InvalidEnvironment} when it is missing or no PostgreSQL URL
 */
export function databaseUrlOf(variables: Variables): string {
  const parsed = postgresUrl.safeParse(variables.DATABASE_URL);
  if (!parsed.success)
    throw new InvalidEnvironment(parsed.error.issues.map(({ message }) => `DATABASE_URL ${message}`));
  return parsed.data;
}

/**
 * The variables of this process, and below them those of the environment file.
 * Production reads no file: what it runs with is what it was given.
 * @param file path of the environment file; it need not exist
 */
export function readVariables(file = '.env'): Variables {
  if (process.env.NODE_ENV === 'production') return { ...process.env };
  try {
    return { ...parse(readFileSync(file)), ...process.env };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return { ...process.env };
    throw error;
  }
}
