import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Variables } from '../src/config/environment.js';
import type { Cleanup } from './cleanup.js';

const START_TIMEOUT_MS = 60_000;
const POLL_INTERVAL_MS = 100;

export interface ServerOptions {
  /** Kills the process when the run ends. */
  readonly cleanup: Cleanup;
  /** The compiled program. */
  readonly script: string;
  readonly words?: readonly string[];
  /** Flags of Node.js. */
  readonly flags?: readonly string[];
  /** The whole environment, except for PATH, which is inherited, and PORT. */
  readonly variables?: Variables;
  readonly cwd?: string;
  /** Whether the server is ready; by default, whether it responds at all. */
  readonly isReady?: (url: string) => Promise<boolean>;
}

/** A Node.js program in a separate process that listens on a port of loopback. It can be restarted on its port. */
export class ServerProcess {
  readonly url: string;
  private child: ChildProcess | undefined;

  constructor(
    private readonly port: number,
    private readonly options: ServerOptions,
  ) {
    this.url = `http://127.0.0.1:${port}`;
    options.cleanup.defer(() => this.kill());
  }

  /** Resolves when the server is ready. @throws when it exits or takes too long */
  async start(): Promise<this> {
    const { cleanup, script, words = [], flags = [], variables, cwd, isReady = answers } = this.options;
    cleanup.assertOpen();
    const child = spawn(process.execPath, [...flags, script, ...words], {
      cwd,
      env: { PATH: process.env.PATH, ...variables, PORT: String(this.port) },
      // The log goes into a pipe that is read, as in production.
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    child.stdout.resume();
    this.child = child;
    const what = [script, ...words].join(' ');
    for (const deadline = performance.now() + START_TIMEOUT_MS; !(await isReady(this.url));) {
      if (this.hasExited) throw new Error(`${what} exited before it was ready`);
      if (performance.now() > deadline) throw new Error(`${what} was not ready within ${START_TIMEOUT_MS} ms`);
      await sleep(POLL_INTERVAL_MS);
    }
    return this;
  }

  get pid(): number {
    if (this.child?.pid === undefined) throw new Error('The process was not started');
    return this.child.pid;
  }

  get hasExited(): boolean {
    return !this.child || this.child.exitCode !== null || this.child.signalCode !== null;
  }

  /** @returns the exit code; null when a signal ended the process */
  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<number | null> {
    if (!this.child) return null;
    if (!this.hasExited) {
      this.child.kill(signal);
      await once(this.child, 'exit');
    }
    return this.child.exitCode;
  }

  async kill(): Promise<void> {
    await this.stop('SIGKILL');
  }
}

/** Whether a server responds, with any status. */
export async function answers(url: string): Promise<boolean> {
  return (await statusOf(url)) !== undefined;
}

/** Whether the service is up and can use its database. */
export async function isHealthy(url: string): Promise<boolean> {
  return (await statusOf(`${url}/health`)) === 200;
}

/** @returns the status of a response on a new connection; undefined when there is none */
async function statusOf(url: string): Promise<number | undefined> {
  try {
    const response = await fetch(url, { headers: { Connection: 'close' } });
    await response.body?.cancel();
    return response.status;
  } catch {
    return undefined;
  }
}
