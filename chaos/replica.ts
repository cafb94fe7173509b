import type { Variables } from '../src/foundation/config/environment.js';
import { claimPort } from '../tools/claim-port.js';
import type { Cleanup } from '../tools/cleanup.js';
import { isHealthy, ServerProcess, type ServerOptions } from '../tools/server-process.js';
import { SERVICE_FLAGS, SERVICE_SCRIPT } from '../tools/service.js';

const MAX_LINES = 100_000;

interface ReplicaProgram {
  readonly script?: string | undefined;
  readonly isReady?: ((url: string) => Promise<boolean>) | undefined;
}

/** A process of the built service that can be killed, paused and restarted on its port. */
export class Replica {
  private constructor(
    private current: ServerProcess,
    private readonly options: ServerOptions,
    /** The newest lines of all its processes. */
    private readonly lines: readonly string[],
  ) {}

  /** By default it is this build, and ready when it is healthy. */
  static async create(
    cleanup: Cleanup,
    variables: Variables,
    { script = SERVICE_SCRIPT, isReady = isHealthy }: ReplicaProgram = {},
  ): Promise<Replica> {
    const lines: string[] = [];
    const onLine = (line: string): void => {
      lines.push(line);
      // Printed at once, because the stack of a fault in the service would be lost with the replica.
      if (line.includes('"internal_error"')) console.error(line);
      if (lines.length > MAX_LINES) lines.shift();
    };
    const options = { cleanup, script, flags: SERVICE_FLAGS, variables, isReady, onLine };
    return new Replica(new ServerProcess(await claimPort(), options), options, lines);
  }

  get server(): ServerProcess {
    return this.current;
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

  /** Makes it this build, from its next start. To be called when it has stopped. */
  upgrade(): void {
    this.current = new ServerProcess(this.server.port, { ...this.options, script: SERVICE_SCRIPT });
  }

  async kill(): Promise<void> {
    await this.server.kill();
  }
}
