import { fork } from 'node:child_process';
import { once } from 'node:events';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import type { Variables } from '../src/foundation/config/environment.js';
import type { EmbeddedPostgres } from '../src/foundation/embedded-postgres/embedded-postgres.js';
import { claimPort } from '../tools/claim-port.js';
import type { Cleanup } from '../tools/cleanup.js';
import { makeTemporaryFolder, startPostgres, withClient } from '../tools/postgres.js';
import { isHealthy, ServerProcess } from '../tools/server-process.js';
import { makeSecrets, productionVariables, SERVICE_FLAGS, SERVICE_SCRIPT } from '../tools/service.js';
import type { Load } from './measure.js';
import { workReady, workSample, type WorkKind, type WorkTask } from './work-messages.js';

const BASELINES = fileURLToPath(new URL('./baselines.js', import.meta.url));
const postmaster = z.tuple([z.object({ pid: z.int() })]);
const WORK = fileURLToPath(new URL('./work.js', import.meta.url));

export type BaselineKind = 'http' | 'pg' | 'nest' | 'stock';

/** A server under load. */
export interface Target {
  readonly url: string;
  readonly pid: number;
}

export interface Service extends Target {
  readonly metricsUrl: string;
  stop(): Promise<unknown>;
}

/** One PostgreSQL, and the measured processes that use it. */
export class Testbed {
  readonly secrets = makeSecrets();

  private constructor(
    readonly database: EmbeddedPostgres,
    private readonly cleanup: Cleanup,
    private readonly profiles: string | undefined,
  ) {}

  /** @param profiles folder for the CPU profiles of the service's processes; undefined makes none */
  static async start(cleanup: Cleanup, profiles: string | undefined): Promise<Testbed> {
    // More connections than the default, because several services and baselines are connected at once.
    const database = await startPostgres({ cleanup, purpose: 'bench', settings: { max_connections: '300' } });
    return new Testbed(database, cleanup, profiles);
  }

  /**
   * Starts the service with its defaults.
   * @param script of the service, by default this checkout's
   */
  async startService(variables: Variables = {}, databaseName = 'postgres', script = SERVICE_SCRIPT): Promise<Service> {
    const metricsPort = await claimPort();
    const profiling = this.profiles === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${resolve(this.profiles)}`];
    const server = new ServerProcess(await claimPort(), {
      cleanup: this.cleanup,
      script,
      flags: [...SERVICE_FLAGS, ...profiling],
      variables: {
        ...productionVariables(this.database.url(databaseName), this.secrets),
        METRICS_PORT: String(metricsPort),
        // High, because all requests come from one address, and the throttle must count them without refusing.
        REFRESH_LIMIT_PER_ADDRESS: '9999999/3600',
        ...variables,
      },
      isReady: isHealthy,
    });
    // A process writes its profile only on a normal exit.
    if (this.profiles !== undefined) this.cleanup.defer(() => server.stop());
    const { url, pid } = await server.start();
    return { url, pid, metricsUrl: `http://127.0.0.1:${metricsPort}/metrics`, stop: () => server.stop() };
  }

  /** The process whose children are PostgreSQL's backends. */
  async readPostmasterPid(): Promise<number> {
    const firstLine = `SELECT split_part(pg_read_file('postmaster.pid'), E'\\n', 1)::int AS pid`;
    const { rows } = await withClient(this.database.url(), (client) => client.query(firstLine));
    return postmaster.parse(rows)[0].pid;
  }

  /** A folder that goes with the run. */
  makeFolder(name: string): string {
    return makeTemporaryFolder(this.cleanup, name);
  }

  /** Runs a task at the end of the run, or when it is interrupted. */
  defer(undo: () => unknown): void {
    this.cleanup.defer(undo);
  }

  /**
   * Starts another server, with the flags of the service.
   * @param script the compiled program
   */
  async startProgram(script: string, variables: Variables): Promise<Target> {
    const options = { cleanup: this.cleanup, script, flags: SERVICE_FLAGS, variables };
    const { url, pid } = await new ServerProcess(await claimPort(), options).start();
    return { url, pid };
  }

  /** @param flags of Node.js; by default those of the service, so that the garbage collector is the same */
  async startBaseline(kind: BaselineKind, flags = SERVICE_FLAGS): Promise<Target> {
    const server = new ServerProcess(await claimPort(), {
      cleanup: this.cleanup,
      script: BASELINES,
      words: [kind],
      flags,
      variables: { DATABASE_URL: this.database.url() },
    });
    const { url, pid } = await server.start();
    return { url, pid };
  }

  /** Starts a process that runs a load without HTTP (work.ts). */
  async startWork<Kind extends WorkKind>(kind: Kind, task: WorkTask<Kind>): Promise<Load> {
    this.cleanup.assertOpen();
    const child = fork(WORK, [kind], { execArgv: SERVICE_FLAGS, env: { PATH: process.env.PATH } });
    this.cleanup.defer(() => child.kill('SIGKILL'));
    const ask = async (message: object): Promise<unknown> => {
      const over = new AbortController();
      const answer = once(child, 'message', over).then(([first]: unknown[]) => first);
      const exit = once(child, 'exit', over).then(() => Promise.reject(new Error(`the work ${kind} ended`)));
      child.send(message);
      try {
        return await Promise.race([answer, exit]);
      } finally {
        over.abort();
      }
    };
    workReady.parse(await ask(task));
    return async (seconds) => workSample.parse(await ask({ seconds }));
  }
}
