import type { MigrationInterface, QueryRunner } from 'typeorm';

/** Version 0.1.0 made the tables in these steps. Its databases keep the names, so that it also still runs on them. */
export const FORMER_MIGRATIONS = `CreateSchema1763683200000 AddKeyHistory1763683300000 CreateAuditEvents1763683400000
  CreateThrottleCounters1763683500000 CreateCredentialChanges1763683600000 CreateThrottleWindows1763683700000
  AddCallerRequestId1763683750000 AddSessionLimit1763683800000 WidenCredentialChanges1763683900000
  SealAuditEvents1763684000000 AddAuditDefiners1763684050000 RecordSessionChanges1763684200000
  CreateIdempotencyKeys1763684250000 CreateSigningKeys1763684300000 OwnAccounts1763771500000
  CreateOperators1763771600000 CreateLinksByEmail1763771700000 AddSecondFactors1763771800000
  KeepLinksAtRehashes1763771900000 IgnoreRestoredPurges1763772000000 ProtectAuditLogInReplicaMode1763858400000
  MarkReportedUses1763858500000 AddMailNetworks1763858600000 IndexLists1763858700000 CreateJobRuns1763945000000
  RestrictKeys1763945100000 CreateConsoleSessions1763945400000 CreateNodeEnrolments1763946000000
  KeepFirstProofs1763947000000 CreateRefusedNodeTargets1763948000000 CreateRefusedAppKeys1763949000000`.split(/\s+/);

/** Only a part of the former migrations has run, so neither their tables nor those of this version are there. */
export class FormerSchemaError extends Error {
  override readonly name = 'FormerSchemaError';
  readonly code = 'FORMER_SCHEMA';

  constructor(count: number) {
    super(
      `The database has ${count} of the ${FORMER_MIGRATIONS.length} migrations of version 0.1.0. ` +
        'Run platform-auth migrate of commit 48b3efd6 first, which adds the others. Nothing was changed.',
    );
  }
}

/**
 * @param applied names of the migrations that the database has
 * @returns whether version 0.1.0 has made the tables
 * @throws {FormerSchemaError} when a version before it has
 */
export function wasMadeByFormerMigrations(applied: readonly string[]): boolean {
  const former = applied.filter((name) => FORMER_MIGRATIONS.includes(name));
  if (former.length > 0 && former.length < FORMER_MIGRATIONS.length) throw new FormerSchemaError(former.length);
  return former.length > 0;
}

interface MigrationSql {
  /**
   * @param schema the name of the schema, quoted. Functions of triggers write it before their tables, because a restore and the
   * apply worker of logical replication run them with an empty search path.
   */
  readonly up: string | ((schema: string) => string);
  readonly down: string;
  /** The tables of version 0.1.0, which a database of that version has already. */
  readonly isInitial?: boolean;
}

/**
 * Defines a migration that consists of SQL. One that was delivered never changes: databases have run it.
 * @param name ends with a timestamp in milliseconds, by which TypeORM orders migrations
 */
export function defineMigration(name: string, { up, down, isInitial = false }: MigrationSql) {
  class Migration implements MigrationInterface {
    async up(runner: QueryRunner): Promise<void> {
      if (isInitial && (await wasAdopted(runner))) return;
      const [row] = (await runner.query('SELECT quote_ident(current_schema()) AS schema')) as [{ schema: string }];
      await runner.query(typeof up === 'string' ? up : up(row.schema));
    }

    async down(runner: QueryRunner): Promise<void> {
      if (isInitial && (await wasAdopted(runner)))
        throw new Error('Version 0.1.0 made these tables: nothing to revert.');
      await runner.query(down);
    }
  }
  return Object.defineProperty(Migration, 'name', { value: name });
}

async function wasAdopted(runner: QueryRunner): Promise<boolean> {
  const applied = (await runner.query('SELECT name FROM migrations')) as { name: string }[];
  return wasMadeByFormerMigrations(applied.map(({ name }) => name));
}

/**
 * Creates triggers that fire under `session_replication_role = replica` too.
 * @param triggers each without CREATE TRIGGER and its function: `NAME AFTER … ON TABLE …`
 */
export function createTriggers(functionName: string, triggers: readonly string[]): string {
  const statements = triggers.map((trigger) => {
    const [, name, table] = /^(\w+) [A-Z ]+ ON (\w+)/.exec(trigger) ?? [];
    if (name === undefined || table === undefined) throw new Error(`This is not a trigger: ${trigger}`);
    return `CREATE TRIGGER ${trigger} EXECUTE FUNCTION ${functionName}(); ALTER TABLE ${table} ENABLE ALWAYS TRIGGER ${name};`;
  });
  return statements.join('\n');
}

/**
 * Creates an index for searches. Where the role may not create pg_trgm, or the server does not have it, searches read the
 * table; the owner of the tables may create the extension and the indexes later (docs/operations/users.md).
 */
export function createSearchIndex(name: string, table: string, text: string): string {
  return `
    DO $$
    DECLARE
      home text;
    BEGIN
      CREATE EXTENSION IF NOT EXISTS pg_trgm;
      SELECT quote_ident(nspname) INTO home FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace
        WHERE extname = 'pg_trgm';
      EXECUTE format('CREATE INDEX ${name} ON ${table} USING gin (%s %s.gin_trgm_ops)', $text$${text}$text$, home);
    EXCEPTION WHEN insufficient_privilege OR feature_not_supported OR undefined_file THEN
      RAISE NOTICE 'Searches will read the whole table: %', SQLERRM;
    END $$;`;
}
