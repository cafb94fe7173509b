import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import type { Cleanup } from './cleanup.js';

/** The user that runs a program; by default the user of this process. */
export interface ProgramUser {
  readonly uid: number;
  readonly gid: number;
}

/** A program of the system that runs beside the service, such as HAProxy. */
export class Program {
  /** The output so far. */
  output = '';

  private constructor(private readonly child: ChildProcess) {
    const keep = (chunk: Buffer): void => void (this.output += chunk.toString());
    child.stdout?.on('data', keep);
    child.stderr?.on('data', keep);
    // A program that is not installed counts as ended.
    child.on('error', (error) => (this.output += error.message));
  }

  /** Starts a program. The cleanup kills it. */
  static start(cleanup: Cleanup, path: string, flags: readonly string[], user?: ProgramUser): Program {
    cleanup.assertOpen();
    const program = new Program(spawn(path, flags, { stdio: ['ignore', 'pipe', 'pipe'], ...user }));
    cleanup.defer(() => program.kill());
    return program;
  }

  get hasExited(): boolean {
    const { pid, exitCode, signalCode } = this.child;
    return pid === undefined || exitCode !== null || signalCode !== null;
  }

  signal(name: NodeJS.Signals): void {
    this.child.kill(name);
  }

  async kill(): Promise<void> {
    if (this.hasExited) return;
    this.child.kill('SIGKILL');
    await once(this.child, 'exit');
  }
}
