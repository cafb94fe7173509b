import { InvalidEnvironment, type Variables } from './environment.js';
import { postgresUrl } from './postgres-url.js';
import { secret } from './variable-kinds.js';
import { schema } from './variables.js';

// What commands need without the rest of the configuration.

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
 * What the seals of the audit log are made with.
 * @throws {InvalidEnvironment} when neither AUDIT_SEAL_KEY nor SECRET_KEY is usable
 */
export function auditSealSecretOf(variables: Variables): string {
  const name = variables.AUDIT_SEAL_KEY === undefined ? 'SECRET_KEY' : 'AUDIT_SEAL_KEY';
  const parsed = secret.safeParse(variables[name]);
  if (!parsed.success) throw new InvalidEnvironment(parsed.error.issues.map(({ message }) => `${name} ${message}`));
  return parsed.data;
}

/**
 * How long the audit log is kept at least, for the functions of the database that drop its months.
 * @throws {InvalidEnvironment} when AUDIT_RETENTION_DAYS is set and not usable
 */
export function auditRetentionDaysOf(variables: Variables): number {
  const parsed = schema.shape.AUDIT_RETENTION_DAYS.safeParse(variables.AUDIT_RETENTION_DAYS);
  if (!parsed.success)
    throw new InvalidEnvironment(parsed.error.issues.map(({ message }) => `AUDIT_RETENTION_DAYS ${message}`));
  return parsed.data;
}
