import { setTimeout as sleep } from 'node:timers/promises';
import type { Variables } from '../src/foundation/config/environment.js';
import type { FixedSettings } from '../src/foundation/config/limits.js';
import { claimPort } from '../tools/claim-port.js';
import type { Cleanup } from '../tools/cleanup.js';
import { startPostgres, UNSAFE } from '../tools/postgres.js';
import { readCpuMicroseconds, readResidentMegabytes } from '../tools/process-usage.js';
import { PATIENT_SETTINGS, replaceSettings } from '../tools/replace-settings.js';
import { isHealthy, ServerProcess } from '../tools/server-process.js';
import { makeSecrets, productionVariables, SERVICE_SCRIPT } from '../tools/service.js';

/** Without limits, because the fuzzer sends from one address and would soon be answered only 429. */
const NO_THROTTLES = Object.fromEntries(
  [
    ...['LOGIN_LIMIT_PER_ACCOUNT_AND_ADDRESS', 'LOGIN_LIMIT_PER_ACCOUNT', 'LOGIN_LIMIT_PER_ADDRESS'],
    ...['REGISTRATION_LIMIT_PER_ADDRESS', 'REFRESH_LIMIT_PER_ADDRESS'],
  ].map((name) => [name, '9999999/1']),
);

interface Start {
  readonly cleanup: Cleanup;
  /** Added to its environment. */
  readonly variables?: Variables;
  /** Added to its fixed settings. */
  readonly settings?: Partial<FixedSettings>;
  /** Flags of Node.js. */
  readonly flags?: readonly string[];
  /** Receives each line of its stdout and stderr. */
  readonly onLine?: (line: string) => void;
}

/** The built service in a separate process, with a separate PostgreSQL. */
export class FuzzedService {
  private constructor(
    private readonly server: ServerProcess,
    readonly databaseUrl: string,
    readonly adminKey: string,
    /** The secrets of its configuration. */
    readonly secrets: readonly string[],
  ) {}

  static async start({
    cleanup,
    variables,
    settings,
    flags = [],
    onLine = () => undefined,
  }: Start): Promise<FuzzedService> {
    const database = await startPostgres({ cleanup, purpose: 'fuzz', settings: UNSAFE });
    const secrets = makeSecrets();
    const server = new ServerProcess(await claimPort(), {
      cleanup,
      script: SERVICE_SCRIPT,
      flags: [...flags, replaceSettings({ ...PATIENT_SETTINGS, ...settings })],
      variables: { ...productionVariables(database.url(), secrets), ...NO_THROTTLES, ...variables },
      isReady: isHealthy,
      onLine,
    });
    await server.start();
    const { password } = new URL(database.url());
    const { SECRET_KEY, ADMIN_API_KEY } = secrets;
    return new FuzzedService(server, database.url(), ADMIN_API_KEY, [SECRET_KEY, ADMIN_API_KEY, password]);
  }

  get port(): number {
    return this.server.port;
  }

  /** Why the process has exited; undefined while it runs. */
  get exit(): string | undefined {
    return this.server.hasExited ? `it exited:\n${this.server.lastLines.join('\n')}` : undefined;
  }

  /** @returns undefined without /proc */
  residentMegabytes(): number | undefined {
    return readResidentMegabytes(this.server.pid);
  }

  /** @returns the CPU time of the process so far; NaN without /proc */
  cpuMilliseconds(): number {
    return readCpuMicroseconds(this.server.pid) / 1_000;
  }
}

/** With a small heap, V8 keeps little garbage. A leak of 0.5 KB in each of 100,000 requests exceeds this. */
export const MAX_GROWTH_MEGABYTES = 32;
const SAMPLE_INTERVAL_MS = 250;
const REST_INTERVAL_MS = 1_000;
const MAX_RESTS = 15;

/** Watches the resident memory of the service. */
export class MemoryWatch {
  /** The maximum during the warm-up, in megabytes; undefined without /proc. */
  before: number | undefined;
  after: number | undefined;
  private readonly timer: NodeJS.Timeout;

  constructor(private readonly service: FuzzedService) {
    this.timer = setInterval(() => this.sample(), SAMPLE_INTERVAL_MS).unref();
  }

  warmedUp(): void {
    clearInterval(this.timer);
    this.sample();
  }

  /**
   * Waits until the service uses no more memory than before.
   * @returns what is wrong when it does not
   */
  async judge(rests = MAX_RESTS): Promise<string | undefined> {
    const { before } = this;
    for (let rest = 0; rest < rests; rest += 1) {
      await sleep(REST_INTERVAL_MS);
      this.after = this.service.residentMegabytes();
      if (before === undefined || this.after === undefined || this.after <= before) return undefined;
    }
    if (before === undefined || this.after === undefined || this.after <= before + MAX_GROWTH_MEGABYTES)
      return undefined;
    return `${before} MB at most while it warmed up, ${this.after} MB after the run and a rest`;
  }

  private sample(): void {
    const megabytes = this.service.residentMegabytes();
    if (megabytes !== undefined) this.before = Math.max(megabytes, this.before ?? 0);
  }
}
