import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Variables } from '../src/foundation/config/environment.js';
import type { Cleanup } from './cleanup.js';

const START_TIMEOUT_MS = 120_000;
const POLL_INTERVAL_MS = 100;
const ANSWER_TIMEOUT_MS = 15_000;
const MAX_LAST_LINES = 20;

export interface ServerOptions {
  /** Kills the process when the run ends. */
  readonly cleanup: Cleanup;
  /** The program that runs the script; by default this Node.js. */
  readonly program?: string;
  /** The compiled program; left out where `program` needs none. */
  readonly script?: string;
  readonly words?: readonly string[];
  /** Flags of Node.js, or of the other program. */
  readonly flags?: readonly string[];
  /** The whole environment, except for PORT, and PATH, which is inherited. */
  readonly variables?: Variables;
  readonly cwd?: string;
  /** By default the server is ready when it responds at all. */
  readonly isReady?: (url: string) => Promise<boolean>;
  /** Receives each line that the process writes. Without it, stdout is discarded and stderr is inherited. */
  readonly onLine?: (line: string) => void;
}

/** A program that listens on a loopback port, in a process that can be restarted on that port. */
export class ServerProcess {
  readonly url: string;
  /** The newest output, when there is an `onLine`. */
  readonly lastLines: string[] = [];
  private child: ChildProcess | undefined;

  constructor(
    readonly port: number,
    private readonly options: ServerOptions,
  ) {
    this.url = `http://127.0.0.1:${port}`;
    options.cleanup.defer(() => this.kill());
  }

  /** Resolves when the server is ready. @throws when it exits or takes too long */
  async start(): Promise<this> {
    const { program = process.execPath, script = program, words = [], isReady = isResponding } = this.options;
    const closed = this.launch();
    const what = [script, ...words].join(' ');
    for (const deadline = performance.now() + START_TIMEOUT_MS; !(await isReady(this.url));) {
      if (this.hasExited) {
        await closed;
        throw new Error([`${what} exited before it was ready`, ...this.lastLines].join('\n'));
      }
      if (performance.now() > deadline) throw new Error(`${what} was not ready within ${START_TIMEOUT_MS} ms`);
      await sleep(POLL_INTERVAL_MS);
    }
    return this;
  }

  /**
   * Starts the process, which may exit again.
   * @returns when it has exited and all its lines were read
   */
  launch(): Promise<void> {
    const {
      cleanup,
      program = process.execPath,
      script,
      words = [],
      flags = [],
      variables,
      cwd,
      onLine,
    } = this.options;
    cleanup.assertOpen();
    const child = spawn(program, [...flags, ...(script === undefined ? [] : [script]), ...words], {
      cwd,
      env: { PATH: process.env.PATH, ...variables, PORT: String(this.port) },
      // The log goes into a pipe that is read, as in production.
      stdio: ['ignore', 'pipe', onLine ? 'pipe' : 'inherit'],
    });
    this.child = child;
    const ends = [new Promise<void>((resolve) => child.once('close', () => resolve()))];
    if (onLine) ends.push(this.read(child.stdout, onLine), this.read(child.stderr, onLine));
    else child.stdout?.resume();
    return Promise.all(ends).then(() => undefined);
  }

  get pid(): number {
    if (this.child?.pid === undefined) throw new Error('The process was not started');
    return this.child.pid;
  }

  get hasExited(): boolean {
    return !this.child || this.child.exitCode !== null || this.child.signalCode !== null;
  }

  signal(name: NodeJS.Signals): void {
    this.child?.kill(name);
  }

  /** @returns the exit code; null when a signal ended the process */
  async exited(): Promise<number | null> {
    if (this.child && !this.hasExited) await once(this.child, 'exit');
    return this.child?.exitCode ?? null;
  }

  /** @returns the exit code; null when a signal ended the process */
  stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<number | null> {
    if (!this.hasExited) this.signal(signal);
    return this.exited();
  }

  async kill(): Promise<void> {
    await this.stop('SIGKILL');
  }

  private async read(stream: Readable | null, onLine: (line: string) => void): Promise<void> {
    if (!stream) return;
    for await (const line of createInterface({ input: stream })) {
      this.lastLines.push(line);
      if (this.lastLines.length > MAX_LAST_LINES) this.lastLines.shift();
      onLine(line);
    }
  }
}

/** Whether a server responds, with any status. */
export async function isResponding(url: string): Promise<boolean> {
  return (await statusOf(url)) !== undefined;
}

/** Whether the service is up and can use its database. */
export async function isHealthy(url: string): Promise<boolean> {
  return (await statusOf(`${url}/health`)) === 200;
}

/** @returns the status of a response on a new connection; undefined when there is none in time */
export async function statusOf(
  url: string,
  {
    method = 'GET',
    headers = {},
  }: { readonly method?: string; readonly headers?: Readonly<Record<string, string>> } = {},
): Promise<number | undefined> {
  try {
    const signal = AbortSignal.timeout(ANSWER_TIMEOUT_MS);
    const response = await fetch(url, { method, headers: { Connection: 'close', ...headers }, signal });
    await response.body?.cancel();
    return response.status;
  } catch {
    return undefined;
  }
}
