import type { TestDatabase } from '../../support/test-database.js';

/**
 * The whole schema, without the table of the migrations and without extensions: columns in full, indexes, constraints, comments,
 * functions with their privileges, triggers with their states, and types.
 */
export function readSchema(database: TestDatabase): Promise<object[]> {
  return database.query(`
    SELECT table_name, column_name AS name, concat_ws(' ', ordinal_position, data_type, is_nullable, column_default) AS definition
      FROM information_schema.columns WHERE table_schema = 'public' AND table_name <> 'migrations'
    UNION ALL SELECT tablename, indexname, indexdef FROM pg_indexes
      WHERE schemaname = 'public' AND tablename <> 'migrations'
    UNION ALL SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
      WHERE connamespace = 'public'::regnamespace AND conrelid::regclass::text <> 'migrations'
    UNION ALL SELECT objoid::regclass::text, objsubid::text, description FROM pg_description
      WHERE classoid = 'pg_class'::regclass
        AND objoid IN (SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace)
    UNION ALL SELECT proname, 'function', concat_ws(' ', pg_get_functiondef(oid), proacl::text) FROM pg_proc
      WHERE pronamespace = 'public'::regnamespace
        AND NOT EXISTS (SELECT FROM pg_depend WHERE objid = pg_proc.oid AND deptype = 'e')
    UNION ALL SELECT tgrelid::regclass::text, tgname, concat_ws(' ', pg_get_triggerdef(oid), tgenabled) FROM pg_trigger
      WHERE NOT tgisinternal
    UNION ALL SELECT typname, 'type', typtype::text FROM pg_type
      WHERE typnamespace = 'public'::regnamespace AND typtype IN ('e', 'd')
    ORDER BY 1, 2, 3`);
}
