import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, renameSync, rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Cleanup } from '../tools/cleanup.js';
import type { PostgresServer } from '../tools/postgres-server.js';

const run = promisify(execFile);

/** Moves the tables to a small tmpfs; the WAL stays on the normal disk. Needs root for mount(8). */
export async function moveToSmallDisk(cleanup: Cleanup, postgres: PostgresServer, megabytes: number): Promise<void> {
  const { dataFolder } = postgres;
  const [aside, wal] = [`${dataFolder}-aside`, `${dataFolder}-wal`];
  await postgres.stop('fast');
  renameSync(dataFolder, aside);
  mkdirSync(dataFolder);
  await run('mount', ['-t', 'tmpfs', '-o', `size=${megabytes}m`, 'tmpfs', dataFolder]);
  cleanup.defer(async () => {
    await postgres.stopIfRunning();
    await run('umount', ['--lazy', dataFolder]);
  });
  renameSync(join(aside, 'pg_wal'), wal);
  cpSync(aside, dataFolder, { recursive: true });
  symlinkSync(wal, join(dataFolder, 'pg_wal'));
  rmSync(aside, { recursive: true });
  await postgres.takeOwnership(dataFolder);
  await postgres.startAgain();
}
