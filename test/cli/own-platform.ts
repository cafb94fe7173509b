import { lstatSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse as parseVariables } from 'dotenv';
import { DataSource } from 'typeorm';
import { parse, stringify } from 'yaml';
import { diagnose } from '../../src/cli/platform/doctor.js';
import type { PlatformFinding } from '../../src/cli/platform/finding.js';
import type { PlanReport } from '../../src/cli/platform/plan.js';
import { init, type InitRequest } from '../../src/cli/platform/init.js';
import { toCredentialVariables } from '../../src/foundation/common/names.js';
import { parsePlatformMap, type PlatformMap } from '../../src/cli/platform/platform-map.js';
import { createMigrationOptions } from '../../src/foundation/database/migrate.js';
import { CreateAppCredentials1795651200005 } from '../../src/foundation/database/migrations/app-credentials.js';
import { holdWrites } from '../support/row-lock.js';
import { recordLogLine } from '../support/run-log.js';
import { TestClock } from '../support/test-clock.js';
import { makeFolder } from '../support/temporary-folders.js';
import { createTestDatabase, type TestDatabase } from '../support/test-database.js';
import { fromRoot } from '../support/from-root.js';

/** Runs commands in the process of the tests: they read the variables that a test sets, and print to its log. */
export function useCommands(): void {
  beforeAll(() => {
    for (const name of ['DATABASE_URL', 'REVOCATION_LEASE_MS']) Reflect.deleteProperty(process.env, name);
    jest.spyOn(process.stderr, 'write').mockImplementation((text) => {
      recordLogLine(String(text).trimEnd());
      return true;
    });
  });
  afterAll(() => void jest.restoreAllMocks());
}

export const SHIPPED_MAP = fromRoot('platform.yaml');

interface RawService {
  url: string;
  calls?: string[] | Record<string, string[] | { scopes: string[]; for_users: boolean } | null>;
  verifies_access_tokens?: boolean;
  urls?: Record<string, string>;
  events?: string[];
}
interface RawMap {
  services: Record<string, RawService>;
  nodes?: { targets: string[] };
}

/** The shipped map over a database and a folder of its own. */
export class OwnPlatform {
  readonly clock = new TestClock();
  readonly envDir: string;
  readonly mapPath: string;

  private constructor(
    readonly database: TestDatabase,
    private readonly folder: string,
  ) {
    this.envDir = join(folder, 'env');
    this.mapPath = join(folder, 'platform.yaml');
    this.changeMap(() => undefined, SHIPPED_MAP);
  }

  /** There is only a map, and a database: an empty one by default, as on a new machine. */
  static async create({ isEmpty = true } = {}): Promise<OwnPlatform> {
    return new OwnPlatform(await createTestDatabase({ isEmpty }), makeFolder('cli'));
  }

  async remove(): Promise<void> {
    await this.database.drop();
  }

  get map(): PlatformMap {
    return parsePlatformMap(readFileSync(this.mapPath, 'utf8'), 'platform.yaml');
  }

  changeMap(change: (map: RawMap) => void, from = this.mapPath): void {
    const raw = parse(readFileSync(from, 'utf8')) as RawMap;
    change(raw);
    writeFileSync(this.mapPath, stringify(raw));
  }

  /** Runs init in this process. */
  async init(options: Partial<InitRequest> = {}): Promise<PlanReport> {
    process.env.DATABASE_URL = this.database.url;
    return this.initWithoutUrl(options).finally(() => delete process.env.DATABASE_URL);
  }

  /** Runs init where only the file of the service may have DATABASE_URL. */
  async initWithoutUrl(options: Partial<InitRequest> = {}): Promise<PlanReport> {
    const request = {
      map: this.map,
      envDir: this.envDir,
      prune: false,
      dryRun: false,
      confirm: () => Promise.resolve(),
    };
    return init({ ...request, ...options }, this.clock);
  }

  async diagnose(url?: string, clock = this.clock): Promise<PlatformFinding[]> {
    return diagnose({ map: this.map, envDir: this.envDir, url }, clock);
  }

  path(service: string): string {
    return join(this.envDir, `${service}.env`);
  }

  variables(service: string): Record<string, string | undefined> {
    return parseVariables(readFileSync(this.path(service)));
  }

  /** The values of all keys in the files. */
  get secrets(): string[] {
    const files = this.map.services.map(({ name }) => Object.entries(this.variables(name)));
    return files.flat().flatMap(([name, value]) => (name.endsWith('_KEY') ? value! : []));
  }

  /** Changes a file as an operator does with an editor. */
  edit(service: string, change: (text: string) => string): void {
    writeFileSync(this.path(service), change(readFileSync(this.path(service), 'utf8')));
  }

  /** The app headers that a service would send, from its file. */
  headers(caller: string, target: string): Record<string, string> {
    const names = toCredentialVariables(target);
    const variables = this.variables(caller);
    return { 'X-Platform-App-Id': variables[names.id]!, 'X-Platform-App-Key': variables[names.key]! };
  }

  /** Every file by name, byte for byte, with its mode and the time of its last change. */
  snapshot(): Record<string, string> {
    const names = readdirSync(this.envDir).sort();
    return Object.fromEntries(
      names.map((name) => {
        const { mode, mtimeMs } = lstatSync(join(this.envDir, name));
        return [name, `${mode & 0o777} ${mtimeMs} ${readFileSync(join(this.envDir, name), 'latin1')}`];
      }),
    );
  }

  /** Every row of the table, to compare before and after. */
  async rows(): Promise<Record<string, unknown>[]> {
    return this.database.query('SELECT * FROM app_credentials ORDER BY id');
  }

  /** Holds every transaction that changes the credential of a pair. */
  async barrierAt(caller: string, target: string) {
    const { reached, release, remove } = await holdWrites(
      this.database,
      'app_credentials',
      `NEW.caller = '${caller}' AND NEW.target = '${target}'`,
    );
    return { reached, remove: async () => release().then(remove) };
  }

  /** Reverts every migration after the one of app credentials: other tables are missing. @returns the reverted ones */
  async revertToAppCredentials(): Promise<string[]> {
    const dataSource = await new DataSource(createMigrationOptions(this.database.url)).initialize();
    const names = dataSource.migrations.map((migration) => migration.constructor.name);
    const reverted = names.slice(names.indexOf(CreateAppCredentials1795651200005.name) + 1);
    for (let undone = 0; undone < reverted.length; undone += 1) await dataSource.undoLastMigration();
    await dataSource.destroy();
    return reverted;
  }

  /** All files and rows, to compare before and after. */
  async state() {
    return { files: this.snapshot(), rows: await this.rows() };
  }

  async livePairs(): Promise<string[]> {
    const rows = await this.database.query<{ caller: string; target: string }>(
      'SELECT caller, target FROM app_credentials WHERE revoked_at IS NULL ORDER BY caller, target',
    );
    return rows.map(({ caller, target }) => `${caller} → ${target}`);
  }
}

/** The graph of the specification's section 5, rule 4. */
export const SPECIFIED_PAIRS = [
  'command-orchestration → auth',
  'command-orchestration → notification',
  'command-orchestration → speech-to-text',
  'command-orchestration → text-to-speech',
  'configuration → auth',
  'logging → auth',
  'ocr → auth',
  'recipes → auth',
  'recipes → ocr',
];

export function actions(report: PlanReport): string[] {
  return [...new Set(report.pairs.map(({ action }) => action))];
}
