import { InvalidEnvironmentError, type Variables } from './environment.js';
import { postgresUrl } from './postgres-url.js';
import { secret } from './variable-kinds.js';
import { schema } from './variables.js';

// Single variables, for commands that do not need the rest of the configuration.

/**
 * Reads the only variable that the migrations need.
 * @throws {InvalidEnvironmentError} when it is missing or not a PostgreSQL URL
 */
export function parseDatabaseUrl(variables: Variables): string {
  const parsed = postgresUrl.safeParse(variables.DATABASE_URL);
  if (!parsed.success)
    throw new InvalidEnvironmentError(parsed.error.issues.map(({ message }) => `DATABASE_URL ${message}`));
  return parsed.data;
}

/**
 * Reads the secret that the seals of the audit log are derived from.
 * @throws {InvalidEnvironmentError} when neither AUDIT_SEAL_KEY nor SECRET_KEY is valid
 */
export function parseAuditSealSecret(variables: Variables): string {
  const name = variables.AUDIT_SEAL_KEY === undefined ? 'SECRET_KEY' : 'AUDIT_SEAL_KEY';
  const parsed = secret.safeParse(variables[name]);
  if (!parsed.success)
    throw new InvalidEnvironmentError(parsed.error.issues.map(({ message }) => `${name} ${message}`));
  return parsed.data;
}

/**
 * Reads the minimum retention of the audit log, for the functions of the database that drop its months.
 * @throws {InvalidEnvironmentError} when AUDIT_RETENTION_DAYS is set and not valid
 */
export function parseAuditRetentionDays(variables: Variables): number {
  const parsed = schema.shape.AUDIT_RETENTION_DAYS.safeParse(variables.AUDIT_RETENTION_DAYS);
  if (!parsed.success)
    throw new InvalidEnvironmentError(parsed.error.issues.map(({ message }) => `AUDIT_RETENTION_DAYS ${message}`));
  return parsed.data;
}
