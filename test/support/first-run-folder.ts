import { execFileSync, spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { getServerFolder } from '../../src/foundation/embedded-postgres/embedded-postgres.js';
import { eventually } from '../../tools/eventually.js';

/** A working directory for a first start, with everything that the service creates there. */
export class FirstRunFolder {
  readonly path = mkdtempSync(join(tmpdir(), 'platform-auth-cwd-'));

  /** @param mode 0o755, or 0o700 for a folder that the embedded server may not enter when root starts it */
  constructor(mode = 0o755) {
    chmodSync(this.path, mode);
  }

  get environmentFile() {
    const path = join(this.path, '.env');
    if (!existsSync(path)) return undefined;
    return { text: readFileSync(path, 'utf8'), mode: statSync(path).mode & 0o777 };
  }

  replaceEnvironmentFile(text: string, mode: number): void {
    const path = join(this.path, '.env');
    writeFileSync(path, text);
    chmodSync(path, mode);
  }

  get hasCluster(): boolean {
    return existsSync(this.server);
  }

  /** The process id of the embedded server, from its pid file. */
  get serverPid(): number | undefined {
    return existsSync(this.pidFile) ? Number(readFileSync(this.pidFile, 'utf8').split('\n')[0]) : undefined;
  }

  /** Kills the server and its children, as a power cut does, so that the pid file names a dead process. */
  async cutPower(): Promise<void> {
    const server = this.serverPid!;
    const children = execFileSync('ps', ['-A', '-o', 'pid=,ppid='], { encoding: 'utf8' })
      .split('\n')
      .map((line) => line.trim().split(/\s+/).map(Number))
      .flatMap(([pid, parent]) => (parent === server && pid ? [pid] : []));
    for (const pid of [server, ...children]) endProcess(pid);
    await eventually('the server is gone', () => ![server, ...children].some(isAlive));
    const left = readFileSync(this.pidFile, 'utf8').split('\n');
    writeFileSync(this.pidFile, [spawnSync('true').pid, ...left.slice(1)].join('\n'));
  }

  /** Deletes the data: `.data`, and, for root, the folder that the start message names. */
  deleteData(): void {
    rmSync(this.server, { recursive: true, force: true });
    rmSync(join(this.path, '.data'), { recursive: true, force: true });
  }

  async remove(): Promise<void> {
    const pid = this.serverPid;
    if (pid !== undefined && isAlive(pid)) await this.cutPower();
    this.deleteData();
    rmSync(this.path, { recursive: true, force: true });
  }

  private get pidFile(): string {
    return join(this.cluster, 'postmaster.pid');
  }

  /** Path of the database cluster. */
  get cluster(): string {
    return join(this.server, 'cluster');
  }

  private get server(): string {
    return getServerFolder(join(realpathSync(this.path), '.data/postgres'));
  }
}

function endProcess(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // The process has already exited.
  }
}

/** @returns whether a process runs, which a zombie does not */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return !/^Z/.test(execFileSync('ps', ['-o', 'stat=', '-p', String(pid)], { encoding: 'utf8' }).trim());
  } catch {
    return false;
  }
}
