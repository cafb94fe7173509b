import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ADMIN_KEY } from './settings.js';
import type { TestApp } from './test-app.js';

const PROGRAM = join(import.meta.dirname, '../../dist/src/cli/platform-auth.js');

export interface Run {
  /** null when a signal ended it */
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** The built command line as a process of its own, as an operator runs it against a service. */
export class Cli {
  constructor(
    private readonly url: string,
    private readonly variables: Readonly<Record<string, string>> = { ADMIN_API_KEY: ADMIN_KEY },
    /** To work in. */
    readonly folder = mkdtempSync(join(tmpdir(), 'platform-auth-cli-')),
  ) {}

  static of(app: TestApp): Cli {
    return new Cli(urlOf(app));
  }

  /** The same, with further variables. */
  with(more: Readonly<Record<string, string>>): Cli {
    return new Cli(this.url, { ...this.variables, ...more }, this.folder);
  }

  path(name: string): string {
    return join(this.folder, name);
  }

  /** Starts a command; it may be killed while it runs. */
  start(...parameters: string[]) {
    const env = { PATH: process.env.PATH, AUTH_URL: this.url, ...this.variables };
    const child = spawn(process.execPath, [PROGRAM, ...parameters], { env, cwd: this.folder });
    let [stdout, stderr] = ['', ''];
    child.stdout.on('data', (chunk: Buffer) => void (stdout += chunk.toString()));
    child.stderr.on('data', (chunk: Buffer) => void (stderr += chunk.toString()));
    const ended = once(child, 'close').then((): Run => ({ code: child.exitCode, stdout, stderr }));
    return { kill: () => child.kill('SIGKILL'), ended };
  }

  async run(...parameters: string[]): Promise<Run> {
    return this.start(...parameters).ended;
  }

  /** Runs a command that must succeed, for its text. */
  async ok(...parameters: string[]): Promise<string> {
    const { code, stdout, stderr } = await this.run(...parameters);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    return stdout;
  }

  /** Runs a command that must succeed, for its result. */
  async json<Result>(...parameters: string[]): Promise<Result> {
    return JSON.parse(await this.ok(...parameters, '--json')) as Result;
  }

  /** Runs a command that must fail, for what it says. */
  async fails(...parameters: string[]): Promise<string> {
    const { code, stdout, stderr } = await this.run(...parameters);
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    return stderr;
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}

export function urlOf(app: TestApp): string {
  return `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`;
}
