import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Variables } from '../../src/config/environment.js';

const MAIN = join(import.meta.dirname, '../../dist/src/main.js');
const POLL_MS = 50;

/** The built service as a process of its own, as an operator runs it. */
export class ServiceProcess {
  output = '';

  private constructor(
    readonly url: string,
    private readonly child: ChildProcess,
  ) {
    const keep = (chunk: Buffer): void => void (this.output += chunk.toString());
    child.stdout?.on('data', keep);
    child.stderr?.on('data', keep);
  }

  /** @param variables the whole environment: nothing is inherited but PATH and HOME */
  static async spawn(variables: Variables, cwd = process.cwd()): Promise<ServiceProcess> {
    const port = variables.PORT ?? String(await freePort());
    const env = { PATH: process.env.PATH, HOME: process.env.HOME, PORT: port, ...variables };
    return new ServiceProcess(`http://127.0.0.1:${port}`, spawn(process.execPath, [MAIN], { env, cwd }));
  }

  /** Resolves when the service is ready; rejects when it exits instead. */
  async ready(): Promise<this> {
    while (this.child.exitCode === null) {
      const isReady = await fetch(`${this.url}/health`).then(
        ({ ok }) => ok,
        () => false,
      );
      if (isReady) return this;
      await sleep(POLL_MS);
    }
    throw new Error(`The service did not start:\n${this.output}`);
  }

  kill(signal: NodeJS.Signals): void {
    this.child.kill(signal);
  }

  /** @returns the exit code; null when a signal ended it */
  async exited(): Promise<number | null> {
    if (this.child.exitCode === null && this.child.signalCode === null) await once(this.child, 'exit');
    return this.child.exitCode;
  }

  async stop(): Promise<number | null> {
    this.kill('SIGTERM');
    return this.exited();
  }
}

export async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address() as AddressInfo;
  probe.close();
  await once(probe, 'close');
  return port;
}
