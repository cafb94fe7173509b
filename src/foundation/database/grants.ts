import { DataSource } from 'typeorm';
import { createMigrationOptions } from './migrate.js';

/** The role of the service does not exist, or has privileges that no GRANT restricts. */
class UnusableRoleError extends Error {
  override readonly name = 'UnusableRoleError';
}

const FIND_ROLE = `SELECT rolsuper AS is_superuser, quote_ident(rolname) AS quoted,
    pg_has_role(rolname, (SELECT relowner FROM pg_class WHERE oid = 'audit_events'::regclass), 'MEMBER') AS is_owner
  FROM pg_roles WHERE rolname = $1`;

/**
 * The tables whose rows the service may change: all but those of the audit log. Limited to the service's schema,
 * because in PostgreSQL's image the owner is the first superuser, who owns the system catalogs too.
 */
const ORDINARY_TABLES = `SELECT string_agg(quote_ident(relname), ', ') FROM pg_class
  WHERE relowner = (SELECT relowner FROM pg_class WHERE oid = 'audit_events'::regclass)
    AND relkind IN ('r', 'p') AND NOT relispartition
    AND relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'audit_events'::regclass)
    AND relname NOT IN ('migrations', 'audit_events', 'audit_seals', 'audit_seal_entries', 'audit_settings')`;

/** Excludes the columns that the database sets itself: a role that may set them could backdate a row. */
const INSERTABLE_COLUMNS = `SELECT string_agg(quote_ident(attname), ', ') FROM pg_attribute
  WHERE attrelid = 'audit_events'::regclass AND attnum > 0 AND NOT attisdropped
    AND attname NOT IN ('epoch', 'xid', 'recorded_at')`;

/**
 * Functions with the owner's privileges, for all that the service does to the audit tables beyond INSERT and SELECT.
 */
const FUNCTIONS = `audit_events_make_months(integer), audit_events_drop_month(integer),
  audit_seal_entries_prune(integer), audit_seals_fold(), audit_events_ensure_epoch()`;

const FIND_NAMES = `SELECT quote_ident(current_schema()) AS schema,
  (${ORDINARY_TABLES}) AS tables, (${INSERTABLE_COLUMNS}) AS columns`;
type Names = Record<'schema' | 'tables' | 'columns', string>;

/**
 * A role that may create objects in this schema could shadow what the owner's functions call, and so act as the owner.
 */
const MAY_CREATE = `SELECT current_schema() AS name,
  has_schema_privilege($1, current_schema(), 'CREATE') AS may_create`;

/**
 * Grants a role the privileges that the service needs, and revokes all others on the audit log. Idempotent; needed
 * again after each migration that adds a table.
 * @param retentionDays minimum age at which the role may drop a month of the audit log
 * @throws {UnusableRoleError} when the role does not exist, is a superuser, or may act as the owner
 */
export async function grantToService(databaseUrl: string, role: string, retentionDays: number): Promise<void> {
  const dataSource = await new DataSource({ ...createMigrationOptions(databaseUrl), migrations: [] }).initialize();
  try {
    await dataSource.transaction(async (transaction) => {
      const [found] = await transaction.query<{ is_superuser: boolean; is_owner: boolean; quoted: string }[]>(
        FIND_ROLE,
        [role],
      );
      if (!found)
        throw new UnusableRoleError(`The role "${role}" does not exist. Create it first: CREATE ROLE … LOGIN`);
      if (found.is_superuser || found.is_owner) {
        const why = found.is_superuser ? 'is a superuser' : 'owns the audit log, or may act as its owner';
        throw new UnusableRoleError(`The role "${role}" ${why}: it cannot be restricted. Choose another role.`);
      }
      const [names] = await transaction.query<[Names]>(FIND_NAMES);
      for (const statement of createStatements(found.quoted, names)) await transaction.query(statement);
      const [schema] = await transaction.query<[{ name: string; may_create: boolean }]>(MAY_CREATE, [role]);
      if (schema.may_create)
        throw new UnusableRoleError(
          `The role "${role}" may create objects in the schema "${schema.name}", through PUBLIC or a role that it ` +
            'is a member of, and with a function of its own become the owner. Revoke CREATE on the schema as its ' +
            'owner.',
        );
      await transaction.query('UPDATE audit_settings SET retention_floor_days = $1', [retentionDays]);
    });
  } finally {
    await dataSource.destroy();
  }
}

function createStatements(role: string, { schema, tables, columns }: Names): string[] {
  return [
    // PUBLIC has this privilege by default before PostgreSQL 15.
    `REVOKE CREATE ON SCHEMA ${schema} FROM PUBLIC, ${role}`,
    `GRANT USAGE ON SCHEMA ${schema} TO ${role}`,
    `GRANT SELECT, INSERT, UPDATE, DELETE ON ${tables} TO ${role}`,
    `REVOKE ALL ON audit_events, audit_seals, audit_seal_entries, audit_settings, migrations FROM ${role}`,
    `GRANT SELECT ON audit_events, audit_settings, migrations TO ${role}`,
    `GRANT INSERT (${columns}) ON audit_events TO ${role}`,
    `GRANT SELECT, INSERT ON audit_seals, audit_seal_entries TO ${role}`,
    `GRANT EXECUTE ON FUNCTION ${FUNCTIONS} TO ${role}`,
  ];
}
