import { execFile, spawn, type ChildProcessByStdio } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { promisify } from 'node:util';
import { eventually } from '../../tools/eventually.js';

/** The first start installs Python packages. */
const START_TIMEOUT_MS = 600_000;
const STOP_TIMEOUT_MS = 60_000;
const COMMAND_TIMEOUT_MS = 60_000;
const run = promisify(execFile);

/** The example, started by its one command in a process group of its own, as in a terminal. */
export class Example {
  readonly lines: string[] = [];
  /** Every line was read, and no process of it can write another one. */
  private hasEnded = false;
  private readonly child: ChildProcessByStdio<null, Readable, Readable>;

  constructor(words: readonly string[], variables: Readonly<Record<string, string>> = {}) {
    this.child = spawn('npm', ['run', '--silent', 'example', '--', ...words], {
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, ...variables },
    });
    this.child.once('close', () => (this.hasEnded = true));
    for (const stream of [this.child.stdout, this.child.stderr])
      createInterface({ input: stream }).on('line', (line) => void this.lines.push(line));
  }

  /** The process group. */
  get id(): number {
    if (this.child.pid === undefined) throw new Error('npm was not started');
    return this.child.pid;
  }

  get output(): string {
    return this.lines.join('\n');
  }

  /** @throws when it ends before it prints the line */
  async prints(line: RegExp): Promise<void> {
    const hasPrinted = (): boolean => this.lines.some((each) => line.test(each));
    await eventually(
      `the example prints ${String(line)}`,
      () => {
        if (!hasPrinted() && this.hasEnded) throw new Error(`The example has ended:\n${this.output}`);
        return hasPrinted();
      },
      START_TIMEOUT_MS,
    );
  }

  /** @returns the exit code of a start that must end by itself; null when a signal ended it */
  async fails(): Promise<number | null> {
    await eventually('the example ends', () => this.hasEnded, START_TIMEOUT_MS);
    return this.child.exitCode;
  }

  /** Presses Ctrl-C. @throws when it takes too long */
  async interrupt(): Promise<void> {
    process.kill(-this.id, 'SIGINT');
    await eventually(
      'everything is stopped',
      async () => this.hasEnded && (await this.processes()).length === 0,
      STOP_TIMEOUT_MS,
    );
  }

  /** Ends what is left of it after a failed check. */
  async end(): Promise<void> {
    if ((await this.processes()).length === 0) return;
    try {
      await this.interrupt();
    } catch (error) {
      process.kill(-this.id, 'SIGKILL');
      throw error;
    }
  }

  /** The processes of its group that are running. */
  async processes(): Promise<string[]> {
    const { stdout } = await run('ps', ['-eo', 'pgid=,stat=,args=']);
    const lines = stdout.split('\n').map((line) => line.trim());
    return lines.filter((line) => line.startsWith(`${this.id} `) && !/^\d+ +Z/.test(line));
  }

  /** A file that the start has made, by its path in the folder of this run. */
  readFile(name: string): string {
    const [, folder = ''] = /^ *\. (\S+)\/camera\.env$/m.exec(this.output) ?? [];
    return readFileSync(`${folder}/${name}`, 'utf8');
  }

  /** The commands below a heading, as printed. */
  commands(heading: string): string[] {
    const at = this.lines.indexOf(heading);
    if (at < 0) throw new Error(`The example does not print: ${heading}`);
    const rest = this.lines.slice(at + 1);
    return rest
      .slice(
        0,
        rest.findIndex((line) => !line.startsWith('    ')),
      )
      .map((line) => line.trim());
  }

  /** Types the commands below headings into one shell. @returns what they print */
  async types(...headings: string[]): Promise<string> {
    const script = ['set -e', ...headings.flatMap((heading) => this.commands(heading))].join('\n');
    return (await run('bash', ['-c', script], { timeout: COMMAND_TIMEOUT_MS })).stdout.trim();
  }

  /** @returns variables of one shell in which the commands below a heading were typed */
  async reads(heading: string, ...names: readonly string[]): Promise<string[]> {
    const script = [...this.commands(heading), ...names.map((name) => `printf '%s\\n' "$${name}"`)].join('\n');
    return (await run('bash', ['-c', script], { timeout: COMMAND_TIMEOUT_MS })).stdout.split('\n', names.length);
  }
}
