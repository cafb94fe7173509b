import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import type { Cleanup } from '../../tools/cleanup.js';
import type { VerifierProgram } from './programs.js';

/** The exit code of a consumer that stopped between reading, acting and acknowledging. */
const STOPPED = 3;
const RESTART_INTERVAL_MS = 100;

/** @returns the service that reads events with a program of {@link ConsumerProcess} */
export function toConsumingService({ name }: Pick<VerifierProgram, 'name'>): string {
  return `events-${name}`;
}

const toldEvent = z.object({
  /** The id of the row in the audit log, and the type. */
  id: z.string(),
  type: z.string(),
  time: z.string().transform(Date.parse),
  subject: z.object({ kind: z.string(), id: z.string() }),
  data: z.record(z.string(), z.unknown()),
});
const entry = z.union([z.object({ reset: z.number() }), toldEvent]);

export interface ToldEvent extends z.output<typeof toldEvent> {
  /** How many resets the ledger has before it. */
  readonly resets: number;
}

/** A process of a service that reads events into a ledger. It is started again whenever it stops. */
export class ConsumerProcess {
  private child: ChildProcess | undefined;
  private isOver = false;
  /** Why it ended, when it did not stop on purpose. */
  readonly complaints: string[] = [];

  /** @param path of the ledger, which several processes of one service share */
  constructor(
    cleanup: Cleanup,
    private readonly program: VerifierProgram,
    readonly path: string,
    variables: Readonly<Record<string, string>>,
  ) {
    cleanup.assertOpen();
    const running = this.repeat({ PATH: process.env.PATH, ...program.variables, ...variables });
    cleanup.defer(async () => {
      this.isOver = true;
      this.child?.kill('SIGKILL');
      await running;
    });
  }

  get name(): VerifierProgram['name'] {
    return this.program.name;
  }

  /** The ledger. Resets have the time at which the service began to compare. */
  readLedger(): { told: ToldEvent[]; resets: number[] } {
    const [told, resets]: [ToldEvent[], number[]] = [[], []];
    const text = existsSync(this.path) ? readFileSync(this.path, 'utf8') : '';
    for (const line of text.split('\n').filter((one) => one !== '')) {
      const one = entry.parse(JSON.parse(line));
      if ('reset' in one) resets.push(one.reset);
      else told.push({ ...one, resets: resets.length });
    }
    return { told, resets };
  }

  private async repeat(env: NodeJS.ProcessEnv): Promise<void> {
    for (;;) {
      const child = spawn(this.program.command, [...this.program.consumer, this.path], { env, stdio: 'pipe' });
      this.child = child;
      let said = '';
      child.stderr.on('data', (chunk: Buffer) => (said = (said + chunk.toString()).slice(-500)));
      child.stdout.resume();
      const [code] = (await once(child, 'close')) as [number | null];
      if (this.isOver) return;
      if (code !== STOPPED) this.complaints.push(`it ended with ${String(code)}: ${said}`);
      await sleep(RESTART_INTERVAL_MS);
    }
  }
}
