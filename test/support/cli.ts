import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { ADMIN_KEY } from './settings.js';
import type { TestApp } from './test-app.js';
import { fromRoot } from './from-root.js';
import { makeFolder } from './temporary-folders.js';
import { runCommand } from '../../src/cli/program.js';

const PROGRAM = fromRoot('dist/service/platform-auth.js');

/** Matches what a command prints while it waits on a slow machine. */
const PROGRESS = /^(… \d+ (lines )?so far|(Waiting for|Reading|Writing|Calling|Bringing|Another init) .* …)\n/gm;

interface Run {
  /** Null when a signal ended it. */
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A command is one line, or separate words when one of them holds a blank. */
function toWords(parameters: readonly string[]): string[] {
  const [line = '', ...more] = parameters;
  return more.length === 0 ? line.split(' ') : [...parameters];
}

/** Commands in the process of the tests take turns, because they share its environment, its folder and its streams. */
let turn: Promise<unknown> = Promise.resolve();

/**
 * The command line of an operator, in a folder of its own. It runs in the process of the tests, which saves the start
 * of a process, unless it reads input or the test is about the process.
 */
export class Cli {
  constructor(
    /** The service's address; a function when the service is not started yet. */
    private readonly url: string | (() => string),
    private readonly variables: Readonly<Record<string, string>> = { ADMIN_API_KEY: ADMIN_KEY },
    /** The working directory. */
    readonly folder = makeFolder('cli'),
    private readonly process?: { readonly input: string; readonly staysOpen: boolean },
  ) {}

  /** @returns the same command line with more variables */
  with(more: Readonly<Record<string, string>>): Cli {
    return new Cli(this.url, { ...this.variables, ...more }, this.folder, this.process);
  }

  /** @returns the same command line with text on standard input, which ends after it unless it stays open */
  withInput(input: string, { staysOpen = false } = {}): Cli {
    return new Cli(this.url, this.variables, this.folder, { input, staysOpen });
  }

  path(name: string): string {
    return join(this.folder, name);
  }

  /** Starts a command, which a test may kill while it runs. */
  start(...parameters: string[]) {
    return this.spawn(process.execPath, [PROGRAM, ...toWords(parameters)]);
  }

  /** Runs a command whose standard output is a pipe with a closed reader, as in `… | head -0`. */
  async runIntoClosedPipe(...parameters: string[]): Promise<Run> {
    const script = 'exec 3> >(:); wait $!; exec "$@" >&3 3>&-';
    return this.spawn('bash', ['--norc', '-c', script, 'bash', process.execPath, PROGRAM, ...toWords(parameters)])
      .ended;
  }

  /** Runs a command whose standard output cannot be written, or is closed. */
  async runInto(output: '/dev/full' | '&-', ...parameters: string[]): Promise<Run> {
    const script = `exec "$@" >${output}`;
    return this.spawn('bash', ['--norc', '-c', script, 'bash', process.execPath, PROGRAM, ...toWords(parameters)])
      .ended;
  }

  /** Runs a command whose files cannot be larger than this, as on a disk that is full then. */
  async runWithFileSize(kibibytes: number, ...parameters: string[]): Promise<Run> {
    const script = `ulimit -f ${kibibytes}; exec "$@"`;
    return this.spawn('bash', ['--norc', '-c', script, 'bash', process.execPath, PROGRAM, ...toWords(parameters)])
      .ended;
  }

  private spawn(program: string, parameters: string[]) {
    const child = spawn(program, parameters, { env: this.environment, cwd: this.folder });
    // A command that reads no input may have ended already.
    child.stdin.on('error', () => undefined).write(this.process?.input ?? '');
    if (!this.process?.staysOpen) child.stdin.end();
    let [stdout, stderr] = ['', ''];
    child.stdout.on('data', (chunk: Buffer) => void (stdout += chunk.toString()));
    child.stderr.on('data', (chunk: Buffer) => void (stderr += chunk.toString()));
    const ended = once(child, 'close').then((): Run => ({
      code: child.exitCode,
      stdout,
      stderr: stderr.replace(PROGRESS, ''),
    }));
    return {
      kill: (signal: NodeJS.Signals = 'SIGKILL') => child.kill(signal),
      ended,
      shown: () => stdout,
      said: () => stderr,
    };
  }

  async run(...parameters: string[]): Promise<Run> {
    if (this.process) return this.start(...parameters).ended;
    const run = turn.then(async () => this.runHere(toWords(parameters)));
    turn = run.catch(() => undefined);
    return run;
  }

  private async runHere(parameters: readonly string[]): Promise<Run> {
    const [variables, folder] = [process.env, process.cwd()];
    const shown = { stdout: '', stderr: '' };
    const spies = (['stdout', 'stderr'] as const).map((name) =>
      jest.spyOn(process[name], 'write').mockImplementation((text, done?: unknown) => {
        shown[name] += String(text);
        (done as (() => void) | undefined)?.();
        return true;
      }),
    );
    try {
      process.env = this.environment;
      process.chdir(this.folder);
      const code = await runCommand('0', parameters);
      return { code, stdout: shown.stdout, stderr: shown.stderr.replace(PROGRESS, '') };
    } finally {
      process.env = variables;
      process.chdir(folder);
      for (const spy of spies) spy.mockRestore();
    }
  }

  private get environment(): NodeJS.ProcessEnv {
    const url = typeof this.url === 'string' ? this.url : this.url();
    return { PATH: process.env.PATH, AUTH_URL: url, ...this.variables };
  }

  /** Runs a command that must succeed. @returns its output */
  async ok(...parameters: string[]): Promise<string> {
    const { code, stdout, stderr } = await this.run(...parameters);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    return stdout;
  }

  /** Runs a command that must succeed. @returns its result, parsed */
  async json<Result>(...parameters: string[]): Promise<Result> {
    return JSON.parse(await this.ok(...toWords(parameters), '--json')) as Result;
  }

  /** Runs a command that must fail. @returns its error output */
  async fails(...parameters: string[]): Promise<string> {
    const { code, stdout, stderr } = await this.run(...parameters);
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    return stderr;
  }
}

/** The command line of an operator of an application, in a temporary folder. */
export function useCli(app: TestApp): Cli {
  return new Cli(() => urlOf(app));
}

export function urlOf(app: Pick<TestApp, 'server'>): string {
  return `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`;
}
