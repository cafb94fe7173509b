import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { parse } from 'dotenv';
import type { z } from 'zod';
import { toLimits, type Limits } from './limits.js';
import { getRevocationWaitMs, schema, getShutdownDelayMs } from './variables.js';

/** Raw variables by name, as a process or an environment file holds them. */
export type Variables = Readonly<Record<string, string | undefined>>;

type Values = z.output<typeof schema>;

/** For all workers together. */
const DEFAULT_HASH_QUEUE_LIMIT = 100;

/** Everything that can be configured, validated, with its unit in its name. */
export class Environment {
  readonly nodeEnv!: 'development' | 'production' | 'test';
  /** The name of this service: the target of the app keys that its own routes accept. */
  readonly serviceName!: string;
  readonly host!: string;
  readonly port!: number;
  /** The only port of `/internal/*` and the admin routes; undefined: they are served on `port`. */
  readonly internalPort!: number | undefined;
  readonly metricsPort!: number | undefined;
  /** Processes that share the port. */
  readonly workers!: number;
  /** This process is a worker: the primary has run the migrations. */
  readonly isWorker!: boolean;
  readonly startTimeoutSeconds!: number;
  readonly databaseUrl!: string;
  readonly databasePoolSize!: number;
  readonly databaseConnectTimeoutMs!: number;
  readonly databaseStatementTimeoutMs!: number;
  readonly secretKey!: string;
  /** Decrypts and verifies during a rotation of the secret key; nothing is signed or encrypted with it. */
  readonly secretKeyPrevious!: string | undefined;
  readonly adminApiKey!: string | undefined;
  readonly jwtIssuer!: string;
  readonly jwtAudience!: string | undefined;
  readonly accessTokenAlgorithm!: 'HS256' | 'ES256';
  readonly signingKeyDays!: number;
  readonly accessTokenTtlMinutes!: number;
  readonly refreshTokenTtlDays!: number;
  readonly refreshGraceSeconds!: number;
  readonly sessionMaxAgeDays!: number;
  readonly sessionLimitPerUser!: number;
  readonly registrationOpen!: boolean;
  readonly bcryptCost!: number;
  readonly hashThreads!: number;
  readonly hashQueueLimit!: number;
  readonly passwordMinLength!: number;
  /** `common` (the list that ships), `off`, or the path of a file with one password a line. */
  readonly passwordBlocklist!: string;
  readonly keyOverlapHours!: number;
  readonly revocationLeaseMs!: number;
  readonly revocationWaitMs!: number;
  readonly outageGraceSeconds!: number;
  readonly credentialMemorySize!: number;
  readonly validateNodeRequiresApp!: boolean;
  readonly trustProxy!: boolean | number | string;
  readonly logLevel!: string;
  readonly logsValidations!: boolean;
  readonly loggingServiceUrl!: string | undefined;
  readonly loggingAppId!: string | undefined;
  readonly loggingAppKey!: string | undefined;
  readonly healthTimeoutMs!: number;
  readonly shutdownDelayMs!: number;
  readonly shutdownDeadlineMs!: number;
  readonly purgeIntervalMinutes!: number;
  readonly sessionKeepDays!: number;
  readonly credentialKeepDays!: number;
  readonly auditRetentionDays!: number;
  readonly auditSealKey!: string | undefined;
  readonly auditSealIntervalSeconds!: number;
  readonly limits!: Limits;
}

/** The configuration is not valid. Each problem names a variable and never shows its value. */
export class InvalidEnvironmentError extends Error {
  override readonly name = 'InvalidEnvironmentError';

  constructor(readonly problems: string[]) {
    super(`The configuration is not usable:\n${problems.map((problem) => `  - ${problem}`).join('\n')}`);
  }
}

/**
 * Validates raw variables.
 * @param variables as {@link readVariables} returns them; an empty value counts as unset
 * @returns the typed environment with every default filled in
 * @throws {InvalidEnvironmentError} naming every variable that is missing or not valid
 */
export function parseEnvironment(variables: Variables): Environment {
  const value = validate(variables);
  return {
    nodeEnv: value.NODE_ENV,
    serviceName: value.SERVICE_NAME,
    ...toAddresses(value),
    workers: value.WORKERS,
    isWorker: false,
    startTimeoutSeconds: value.START_TIMEOUT_SECONDS,
    databaseUrl: value.DATABASE_URL,
    databasePoolSize: value.DATABASE_POOL_SIZE,
    databaseConnectTimeoutMs: value.DATABASE_CONNECT_TIMEOUT_MS,
    databaseStatementTimeoutMs: value.DATABASE_STATEMENT_TIMEOUT_MS,
    secretKey: value.SECRET_KEY,
    secretKeyPrevious: value.SECRET_KEY_PREVIOUS,
    adminApiKey: value.ADMIN_API_KEY,
    ...toAccessTokens(value),
    refreshTokenTtlDays: value.REFRESH_TOKEN_EXPIRE_DAYS,
    refreshGraceSeconds: value.REFRESH_GRACE_SECONDS,
    sessionMaxAgeDays: value.SESSION_MAX_AGE_DAYS,
    sessionLimitPerUser: value.SESSION_LIMIT_PER_USER,
    registrationOpen: value.REGISTRATION === 'open',
    ...toHashing(value),
    passwordMinLength: value.PASSWORD_MIN_LENGTH,
    passwordBlocklist: value.PASSWORD_BLOCKLIST,
    keyOverlapHours: value.KEY_OVERLAP_HOURS,
    revocationLeaseMs: value.REVOCATION_LEASE_MS,
    revocationWaitMs: getRevocationWaitMs(value),
    outageGraceSeconds: value.OUTAGE_GRACE_SECONDS,
    credentialMemorySize: value.CREDENTIAL_MEMORY_SIZE,
    validateNodeRequiresApp: value.VALIDATE_NODE_REQUIRES_APP,
    trustProxy: value.TRUST_PROXY,
    logLevel: value.LOG_LEVEL,
    logsValidations: value.LOG_VALIDATIONS,
    loggingServiceUrl: value.LOGGING_SERVICE_URL,
    loggingAppId: value.LOGGING_APP_ID,
    loggingAppKey: value.LOGGING_APP_KEY,
    healthTimeoutMs: value.HEALTH_TIMEOUT_MS,
    shutdownDelayMs: getShutdownDelayMs(value),
    shutdownDeadlineMs: value.SHUTDOWN_DEADLINE_MS,
    ...toUpkeep(value),
    limits: toLimits(value),
  };
}

function toAddresses(value: Values) {
  return {
    host: value.HOST ?? (value.NODE_ENV === 'production' ? '0.0.0.0' : '127.0.0.1'),
    port: value.PORT,
    internalPort: value.INTERNAL_PORT,
    metricsPort: value.METRICS_PORT,
  };
}

function toAccessTokens(value: Values) {
  return {
    jwtIssuer: value.JWT_ISSUER,
    jwtAudience: value.JWT_AUDIENCE,
    accessTokenAlgorithm: value.ACCESS_TOKEN_ALGORITHM,
    signingKeyDays: value.SIGNING_KEY_DAYS,
    accessTokenTtlMinutes: value.ACCESS_TOKEN_EXPIRE_MINUTES,
  };
}

/** The workers share the cores, and the queue too, because fewer threads take longer to empty it. */
function toHashing(value: Values) {
  return {
    bcryptCost: value.BCRYPT_COST,
    hashThreads: value.HASH_THREADS ?? Math.ceil(availableParallelism() / value.WORKERS),
    hashQueueLimit: value.HASH_QUEUE_LIMIT ?? Math.ceil(DEFAULT_HASH_QUEUE_LIMIT / value.WORKERS),
  };
}

function toUpkeep(value: Values) {
  return {
    purgeIntervalMinutes: value.PURGE_INTERVAL_MINUTES,
    sessionKeepDays: value.SESSION_KEEP_DAYS,
    credentialKeepDays: value.CREDENTIAL_KEEP_DAYS,
    auditRetentionDays: value.AUDIT_RETENTION_DAYS,
    auditSealKey: value.AUDIT_SEAL_KEY,
    auditSealIntervalSeconds: value.AUDIT_SEAL_INTERVAL_SECONDS,
  };
}

function validate(variables: Variables): Values {
  const parsed = schema.safeParse(dropEmpty(variables));
  if (parsed.success) return parsed.data;
  throw new InvalidEnvironmentError(parsed.error.issues.map(({ path, message }) => `${path.join('.')} ${message}`));
}

/**
 * Selects the variables that a worker gets in addition to the environment that it inherits: those of this service only,
 * because an environment file may contain others.
 */
export function selectWorkerVariables(variables: Variables): Variables {
  return Object.fromEntries(Object.keys(schema.shape).map((name) => [name, variables[name]]));
}

/** Reads the environment of a worker, which has every variable and reads no file. */
export function readWorkerEnvironment(): Environment {
  return { ...parseEnvironment(process.env), isWorker: true };
}

/** Whether the standard variables of OpenTelemetry, in the environment of this process, ask for traces. */
export function isTracingRequested(variables: Variables = process.env): boolean {
  if (variables.OTEL_SDK_DISABLED?.toLowerCase() === 'true' || variables.OTEL_TRACES_EXPORTER === 'none') return false;
  const settings = [
    variables.OTEL_TRACES_EXPORTER,
    variables.OTEL_EXPORTER_OTLP_ENDPOINT,
    variables.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT,
  ];
  return settings.some((setting) => setting !== undefined && setting !== '');
}

/**
 * Reads the variables of this process, which override those of the environment file. An empty variable counts as unset,
 * and overrides nothing. Production reads no file.
 * @param file path of the environment file; it need not exist
 */
export function readVariables(file = '.env'): Variables {
  const given = dropEmpty(process.env);
  if (given.NODE_ENV === 'production') return given;
  try {
    return { ...dropEmpty(parse(readFileSync(file))), ...given };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return given;
    throw error;
  }
}

function dropEmpty(variables: Variables): Variables {
  return Object.fromEntries(Object.entries(variables).filter(([, value]) => value !== undefined && value !== ''));
}
