import type * as z from 'zod';
import { InvalidEnvironmentError, readSecretFiles, type Variables } from './environment.js';
import { secret } from './variable-kinds.js';
import { VARIABLE_TYPES, type VariableName } from './variables.js';

// Single variables, for commands that do not need the rest of the configuration. Secrets may come from files.

/**
 * Reads the only variable that the migrations need.
 * @throws {InvalidEnvironmentError} when it is missing or not a PostgreSQL URL
 */
export function parseDatabaseUrl(variables: Variables): string {
  return parseOne(readSecretFiles(variables, ['DATABASE_URL']), 'DATABASE_URL', VARIABLE_TYPES.DATABASE_URL);
}

/**
 * Reads the secret that the seals of the audit log are derived from.
 * @throws {InvalidEnvironmentError} when neither AUDIT_SEAL_KEY nor SECRET_KEY is valid
 */
export function parseAuditSealSecret(variables: Variables): string {
  const given = readSecretFiles(variables, ['AUDIT_SEAL_KEY']);
  if (given.AUDIT_SEAL_KEY !== undefined) return parseOne(given, 'AUDIT_SEAL_KEY', secret);
  const derived = readSecretFiles(variables, ['SECRET_KEY']);
  if (derived.SECRET_KEY === undefined)
    throw new InvalidEnvironmentError(['AUDIT_SEAL_KEY (or SECRET_KEY, if the service has none) is required']);
  return parseOne(derived, 'SECRET_KEY', secret);
}

/**
 * Reads the minimum retention of the audit log, for the functions of the database that drop its months.
 * @throws {InvalidEnvironmentError} when AUDIT_RETENTION_DAYS is set and not valid
 */
export function parseAuditRetentionDays(variables: Variables): number {
  return parseOne(variables, 'AUDIT_RETENTION_DAYS', VARIABLE_TYPES.AUDIT_RETENTION_DAYS);
}

/** How access tokens are signed, and the claims that they carry. */
export interface TokenSettings {
  readonly algorithm: 'HS256' | 'ES256';
  readonly issuer: string;
  readonly audience: string | undefined;
}

/** @throws {InvalidEnvironmentError} naming the variable that is not valid */
export function parseTokenSettings(variables: Variables): TokenSettings {
  return {
    algorithm: parseOne(variables, 'ACCESS_TOKEN_ALGORITHM', VARIABLE_TYPES.ACCESS_TOKEN_ALGORITHM),
    issuer: parseOne(variables, 'JWT_ISSUER', VARIABLE_TYPES.JWT_ISSUER),
    audience: parseOne(variables, 'JWT_AUDIENCE', VARIABLE_TYPES.JWT_AUDIENCE),
  };
}

function parseOne<Output>(variables: Variables, name: VariableName, type: z.ZodType<Output>): Output {
  const parsed = type.safeParse(variables[name]);
  if (!parsed.success)
    throw new InvalidEnvironmentError(parsed.error.issues.map(({ message }) => `${name} ${message}`));
  return parsed.data;
}
