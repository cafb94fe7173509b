import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { getServerFolder } from '../../src/foundation/embedded-postgres/embedded-postgres.js';
import { claimPort } from '../../tools/claim-port.js';
import type { Cleanup } from '../../tools/cleanup.js';
import { eventually } from '../../tools/eventually.js';
import { makeTemporaryFolder, withClient } from '../../tools/postgres.js';
import { isHealthy } from '../../tools/server-process.js';
import { fromRoot } from '../support/from-root.js';
import type { Block } from './blocks.js';

/** The checkout is installed and built already; everything else is what npm does. */
const NPM = `#!/bin/bash
case "$1 $2" in 'ci '|'run build') exit; esac
exec "$REAL_NPM" "$@"
`;
/** A refusal that a page does not announce is a failure. */
const CURL = `#!/bin/bash
exec "$REAL_CURL" --fail-with-body "$@"
`;
/** The variables of a shell, for the next page, which is pasted into the same one. */
const KEEP_VARIABLES =
  'declare -p $(compgen -v | grep -E "^[A-Z]" | grep -vE "^(BASH.*|EUID|PPID|SHELLOPTS|UID)$") > variables.sh\n';
/** The database that a page asks the reader to fill in. */
const OWN_DATABASE = 'postgresql://auth:password@127.0.0.1:5432/auth';
const START_MS = 240_000;
const PAGE_MS = 180_000;
const NOT_LINKED = new Set(['.git', '.env', '.data', '.venv', 'env', 'coverage', 'release']);

/** Someone with a checkout, a terminal for the service, and a shell for everything else. */
export class Reader {
  private ownDatabase = OWN_DATABASE;

  private constructor(
    readonly folder: string,
    private readonly ports: ReadonlyMap<string, string>,
    private readonly cleanup: Cleanup,
  ) {}

  static async start(cleanup: Cleanup): Promise<Reader> {
    const folder = makeTemporaryFolder(cleanup, 'documents');
    for (const name of readdirSync(fromRoot('.')))
      if (!NOT_LINKED.has(name)) symlinkSync(fromRoot(name), join(folder, name));
    mkdirSync(join(folder, 'bin'));
    for (const [name, script] of Object.entries({ npm: NPM, curl: CURL })) {
      writeFileSync(join(folder, 'bin', name), script);
      chmodSync(join(folder, 'bin', name), 0o755);
    }
    const ports = new Map<string, string>();
    for (const port of ['7701', '7705', '7706']) ports.set(port, String(await claimPort()));
    writeFileSync(join(folder, '.env'), `PORT=${ports.get('7701')}\n`);
    return new Reader(folder, ports, cleanup);
  }

  get url(): string {
    return `http://127.0.0.1:${this.ports.get('7701')}`;
  }

  /** Leaves the block running, and waits until the service answers. */
  async openTerminal(block: Block): Promise<void> {
    const child = this.spawnShell(block.text);
    const said = Promise.all([text(child.stdout), text(child.stderr)]);
    const ended = once(child, 'exit');
    this.cleanup.defer(async () => {
      // npm, its shell and the service are one group, as at a terminal.
      if (child.exitCode === null && child.pid !== undefined) process.kill(-child.pid, 'SIGINT');
      await ended;
      const data = join(realpathSync(this.folder), '.data/postgres');
      rmSync(getServerFolder(data), { recursive: true, force: true });
    });
    await eventually('the service answers', async () => child.exitCode !== null || isHealthy(this.url), START_MS);
    if (child.exitCode !== null) throw new Error((await said).join(''));
  }

  /** Makes an empty database beside that of the service, which a page asks for. */
  async makeDatabase(): Promise<void> {
    const server = getServerFolder(join(realpathSync(this.folder), '.data/postgres'));
    const port = readFileSync(join(server, 'cluster/postmaster.pid'), 'utf8').split('\n')[3];
    const password = encodeURIComponent(readFileSync(join(server, 'password'), 'utf8').trim());
    const url = `postgresql://platform_auth:${password}@127.0.0.1:${port}/`;
    await withClient(`${url}postgres`, (client) => client.query('CREATE DATABASE own'));
    this.ownDatabase = `${url}own`;
  }

  /**
   * Pastes blocks into one new shell.
   * @param report is told of each block that was reached, and why it failed
   */
  async paste(blocks: readonly Block[], report: (block: Block, failure: string | undefined) => void): Promise<void> {
    const progress = join(this.folder, 'progress');
    writeFileSync(progress, '');
    const script = blocks.map(({ text: code, exitCode }, index) => {
      const run = exitCode === 0 ? code : `set +e\n${code}[ $? -eq ${exitCode} ] || exit 99\nset -e\n`;
      return `echo ${index} >> ${progress}\n${run}`;
    });
    const before = existsSync(join(this.folder, 'variables.sh')) ? '. ./variables.sh\n' : '';
    const child = this.spawnShell([before, ...script, KEEP_VARIABLES].join(''));
    const timer = setTimeout(() => child.pid !== undefined && process.kill(-child.pid, 'SIGKILL'), PAGE_MS);
    const said = Promise.all([text(child.stdout), text(child.stderr)]);
    const [code] = (await once(child, 'close')) as [number | null];
    clearTimeout(timer);
    const last = Number(readFileSync(progress, 'utf8').trim().split('\n').at(-1));
    const output = (await said).join('').split('\n').slice(-30).join('\n');
    for (const [index, block] of blocks.entries())
      if (index < last || code === 0) report(block, undefined);
      else report(block, index === last ? `exited with ${code}:\n${output}` : 'was not reached');
  }

  private spawnShell(code: string) {
    const path = join(this.folder, 'blocks.sh');
    const owned = code.replaceAll(OWN_DATABASE, this.ownDatabase);
    const filled = [...this.ports].reduce(
      (all, [from, to]) => all.replaceAll(new RegExp(`([:=])${from}\\b`, 'g'), `$1${to}`),
      owned,
    );
    writeFileSync(path, filled);
    const flags = ['--norc', '-eu', '-o', 'pipefail', '-O', 'expand_aliases'];
    return spawn('bash', [...flags, path], {
      cwd: this.folder,
      env: {
        PATH: [join(this.folder, 'bin'), process.env.PATH].join(':'),
        HOME: this.folder,
        REAL_NPM: findProgram('npm'),
        REAL_CURL: findProgram('curl'),
      },
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    });
  }
}

function findProgram(name: string): string {
  return execFileSync('bash', ['-c', `command -v ${name}`], { encoding: 'utf8' }).trim();
}
