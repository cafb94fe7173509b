import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { defer, assertNotStopping } from './cleanup.js';
import { ask, now, sleep } from './client.js';
import { freePort } from '../dist/src/embedded-postgres/free-port.js';

const MAIN = fileURLToPath(new URL('../dist/src/main.js', import.meta.url));
const START_TIMEOUT_MS = 60_000;
const MAX_OUTPUT_LENGTH = 20_000_000;

/** A process of the built service that can be killed, paused and restarted on its port. */
export class Replica {
  output = '';
  #child;

  constructor(port, variables) {
    Object.assign(this, { port, variables, url: `http://127.0.0.1:${port}` });
    defer(() => this.kill());
  }

  static async create(variables) {
    return new Replica(await freePort(), variables);
  }

  /** Resolves when the replica is healthy. */
  async start() {
    assertNotStopping();
    const env = { PATH: process.env.PATH, ...this.variables, PORT: String(this.port) };
    this.#child = spawn(process.execPath, [MAIN], { env, stdio: ['ignore', 'pipe', 'pipe'] });
    const keep = (chunk) => (this.output = (this.output + chunk).slice(-MAX_OUTPUT_LENGTH));
    this.#child.stdout.on('data', keep);
    this.#child.stderr.on('data', keep);
    const deadline = now() + START_TIMEOUT_MS;
    while ((await this.#health()) !== 200) {
      if (this.hasExited) throw new Error(`A replica did not start:\n${this.output.slice(-2_000)}`);
      if (now() > deadline) throw new Error(`A replica was not healthy within ${START_TIMEOUT_MS} ms`);
      await sleep(50);
    }
    return this;
  }

  get hasExited() {
    return !this.#child || this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  signal(name) {
    this.#child.kill(name);
  }

  /** @returns {Promise<number | null>} the exit code; null when a signal ended it */
  async exited() {
    if (!this.hasExited) await once(this.#child, 'exit');
    return this.#child.exitCode;
  }

  async kill() {
    if (this.hasExited) return;
    this.signal('SIGKILL');
    await this.exited();
  }

  async #health() {
    return (await ask(this.url, { method: 'GET', path: '/health', timeoutMs: 2_000 })).status;
  }
}
