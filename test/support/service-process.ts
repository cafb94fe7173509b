import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import type { Variables } from '../../src/foundation/config/environment.js';
import { ApiClient } from '../../tools/api-client.js';
import { claimPort } from '../../tools/claim-port.js';
import { eventually } from '../../tools/eventually.js';
import { SERVICE_FLAGS } from '../../tools/service.js';
import { recordLogLine } from './run-log.js';
import { fromRoot } from './from-root.js';
import { ADMIN_KEY } from './settings.js';

const MAIN = fromRoot('dist/service/main.js');
const START_MS = 90_000;
const running = new Set<ChildProcess>();

/** The built service as a separate process, as an operator runs it. each-file.ts kills it when the test file ends. */
export class ServiceProcess {
  output = '';
  /** Resolves when it has exited and all its output was read, which may come later. */
  private readonly closed: Promise<void>;

  private constructor(
    readonly url: string,
    private readonly child: ChildProcess,
  ) {
    const keep = (chunk: Buffer): void => {
      this.output += chunk.toString();
      recordLogLine(chunk.toString().trimEnd());
    };
    child.stdout?.on('data', keep);
    child.stderr?.on('data', keep);
    running.add(child);
    child.once('exit', () => running.delete(child));
    this.closed = new Promise((resolve) => child.once('close', () => resolve()));
  }

  /**
   * @param variables the whole environment, because nothing but PATH and HOME is inherited
   * @param uid of another user of the operating system
   */
  static async spawn(
    variables: Variables,
    cwd = process.cwd(),
    main = MAIN,
    uid = process.getuid?.(),
  ): Promise<ServiceProcess> {
    const port = variables.PORT ?? String(await claimPort());
    const env = { PATH: process.env.PATH, HOME: process.env.HOME, PORT: port, ...variables };
    const words = [...SERVICE_FLAGS, main];
    return new ServiceProcess(`http://127.0.0.1:${port}`, spawn(process.execPath, words, { env, cwd, uid }));
  }

  static async start(variables: Variables, cwd?: string): Promise<ServiceProcess> {
    return (await ServiceProcess.spawn(variables, cwd)).ready();
  }

  get port(): number {
    return Number(new URL(this.url).port);
  }

  get pid(): number {
    return this.child.pid!;
  }

  /** The process ids of its running children. */
  get children(): number[] {
    const pids = readFileSync(`/proc/${this.pid}/task/${this.pid}/children`, 'utf8').match(/\d+/g) ?? [];
    return pids.map(Number);
  }

  /** The complete lines of the output, without half a line at its end. */
  get lines(): string[] {
    return this.output.split('\n').slice(0, -1);
  }

  get hasExited(): boolean {
    return this.child.exitCode !== null || this.child.signalCode !== null;
  }

  /** Resolves when the service is ready; rejects when it exits instead. */
  async ready(): Promise<this> {
    const isReady = async (): Promise<boolean> => this.hasExited || (await this.status('/health')) === 200;
    await eventually('the service is ready', isReady, START_MS);
    if (!this.hasExited) return this;
    await this.closed;
    throw new Error(`The service did not start:\n${this.output}`);
  }

  /** @returns the status of a response on a new connection; undefined when the connection fails */
  async status(path: string): Promise<number | undefined> {
    try {
      const answer = await fetch(this.url + path, { headers: { Connection: 'close' } });
      await answer.body?.cancel();
      return answer.status;
    } catch {
      return undefined;
    }
  }

  /**
   * @param port at which the node is issued
   * @returns the id of a new node and the header with its key
   */
  async issueNode(port = this.port): Promise<{ id: string; headers: Record<string, string> }> {
    const home = { household_id: '5b1c7a9e-0d35-4c8e-9a57-6f0b1f4f2a10', room: 'hall', name: 'lamp' };
    const { node_id, api_key } = await new ApiClient(`http://127.0.0.1:${port}`, ADMIN_KEY).issueNode(home);
    return { id: node_id, headers: { 'X-API-Key': `${node_id}:${api_key}` } };
  }

  kill(signal: NodeJS.Signals): void {
    this.child.kill(signal);
  }

  /**
   * Waits for the process and its output.
   * @returns the exit code; null when a signal ended it
   */
  async exited(): Promise<number | null> {
    await this.closed;
    return this.child.exitCode;
  }

  async stop(): Promise<number | null> {
    this.kill('SIGTERM');
    return this.exited();
  }
}

/** Kills the processes that a test has not stopped itself. */
export async function endAll(): Promise<void> {
  const children = [...running];
  const exits = children.map((child) => once(child, 'exit'));
  for (const child of children) child.kill('SIGKILL');
  await Promise.all(exits);
}
