import { migrate } from '../../src/foundation/database/migrate.js';
import { createTestDatabase, type TestDatabase } from './test-database.js';

/** The functions of PostgreSQL's clock that the service calls. */
const READINGS = ['now', 'clock_timestamp'];
/** PostgreSQL searches its own functions first, unless the path names their schema. */
const PATH = 'public, clock, pg_catalog';

/** A database whose clock a test shifts: for each connection, and for the defaults and functions of the schema. */
export class ShiftedDatabase implements TestDatabase {
  private constructor(private readonly database: TestDatabase) {}

  static async create(): Promise<ShiftedDatabase> {
    const database = await createTestDatabase({ isEmpty: true });
    await database.query(`CREATE SCHEMA clock;
      CREATE TABLE clock.shift (seconds float8 NOT NULL);
      INSERT INTO clock.shift VALUES (0)`);
    for (const reading of READINGS)
      await database.query(`CREATE FUNCTION clock.${reading}() RETURNS timestamptz STABLE
        RETURN pg_catalog.${reading}() + (SELECT seconds * interval '1 second' FROM clock.shift)`);
    await database.query(`DO $$ BEGIN
      EXECUTE format('ALTER DATABASE %I SET search_path = ${PATH}', current_database()); END $$`);
    await migrate(database.url);
    // These have a path of their own.
    await database.query(`DO $$ DECLARE pinned regprocedure; BEGIN
      FOR pinned IN SELECT oid FROM pg_proc WHERE array_to_string(proconfig, ' ') LIKE '%search_path=%' LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = ${PATH}, pg_temp', pinned);
      END LOOP; END $$`);
    return new ShiftedDatabase(database);
  }

  get url(): string {
    return this.database.url;
  }

  query<Row extends object>(sql: string, values?: unknown[]): Promise<Row[]> {
    return this.database.query<Row>(sql, values);
  }

  drop(): Promise<void> {
    return this.database.drop();
  }

  /** Sets PostgreSQL's clock. @param seconds from the right time; negative when it is behind */
  async shift(seconds: number): Promise<void> {
    await this.query('UPDATE clock.shift SET seconds = $1', [seconds]);
  }
}
