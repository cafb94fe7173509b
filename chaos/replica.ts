import type { Variables } from '../src/foundation/config/environment.js';
import { claimPort } from '../tools/claim-port.js';
import type { Cleanup } from '../tools/cleanup.js';
import { isHealthy, ServerProcess } from '../tools/server-process.js';
import { SERVICE_SCRIPT } from '../tools/service.js';

const MAX_LINES = 100_000;

/** A process of the built service that can be killed, paused and restarted on its port. */
export class Replica {
  private constructor(
    readonly server: ServerProcess,
    /** The newest lines of all its processes. */
    private readonly lines: readonly string[],
  ) {}

  /** @param isReady by default waits until it is healthy */
  static async create(cleanup: Cleanup, variables: Variables, isReady = isHealthy): Promise<Replica> {
    const lines: string[] = [];
    const onLine = (line: string): void => {
      lines.push(line);
      // Printed at once, because the stack of a fault in the service would be lost with the replica.
      if (line.includes('"internal_error"')) console.error(line);
      if (lines.length > MAX_LINES) lines.shift();
    };
    const options = { cleanup, script: SERVICE_SCRIPT, variables, isReady, onLine };
    return new Replica(new ServerProcess(await claimPort(), options), lines);
  }

  get url(): string {
    return this.server.url;
  }

  /** @returns how often its log contains a text */
  countInLog(text: string): number {
    return this.lines.reduce((sum, line) => sum + line.split(text).length - 1, 0);
  }

  /** Resolves when the replica is ready. */
  async start(): Promise<void> {
    await this.server.start();
  }

  async kill(): Promise<void> {
    await this.server.kill();
  }
}
