import { appendFileSync, rmSync, statfsSync, cpSync, mkdirSync, renameSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { keyKinds } from '../actors/key-kinds.js';
import { issue } from '../actors/key-life.js';
import type { Load } from '../load.js';
import type { HotRoute } from '../record.js';
import type { Scenario } from '../stage.js';
import type { PostgresServer } from '../../tools/postgres-server.js';
import type { Cleanup } from '../../tools/cleanup.js';

const DISK_MB = 96;
const FULL_MS = 4_000;
const MAX_ROWS = 1_000;
const MAX_CHUNK_BLOCKS = 256;
const READING: readonly HotRoute[] = ['validate-node', 'validate-app', 'users/me'];

/** The tables cannot grow, but routes that only read must go on. */
export const diskFull: Scenario = {
  name: 'disk-full',
  title: 'the disk of the tables is full for 4 s',
  bounds: { errors: ['503'], silenceMs: 7_000, slowestMs: 6_000, backMs: 2_000 },
  whyNot: () =>
    process.platform === 'linux' && process.getuid?.() === 0 ? undefined : 'only root can mount a small disk',
  async run(stage) {
    const { postgres, cleanup } = stage.world;
    await moveToSmallDisk(cleanup, postgres, DISK_MB);
    const load = await stage.begin();
    await stage.rest();
    load.writesAreRefused = true;
    const ballast = join(postgres.dataFolder, 'ballast');
    fill(postgres.dataFolder, ballast);
    await Promise.all([sleep(FULL_MS), growUntilRefused(load)]);
    rmSync(ballast);
    stage.markHealed();
    await sleep(100);
    load.writesAreRefused = false;
    const { record } = load;
    stage.expect(record.countLabel('503') > 0, 'nothing was refused: the disk was not full');
    for (const route of READING)
      stage.expect(record.countErrors(route) === 0, `${route}: ${record.countErrors(route)} errors`);
    await stage.rest();
  },
};

/** Rows that fit into existing pages are still written, and must not be lost. */
async function growUntilRefused(load: Load): Promise<void> {
  for (let made = 0; made < MAX_ROWS && (await issue(load, keyKinds.node)); made += 1);
}

function fill(folder: string, file: string): void {
  const { bsize } = statfsSync(folder);
  for (let left = statfsSync(folder).bfree; left > 0; left = statfsSync(folder).bfree) {
    try {
      appendFileSync(file, Buffer.alloc(Math.min(left, MAX_CHUNK_BLOCKS) * bsize, 1));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
    }
  }
}

const READ_ONLY_MS = 4_000;

export const readOnly: Scenario = {
  name: 'read-only',
  title: 'the database is read-only for 4 s',
  bounds: { errors: ['503'], silenceMs: 7_000, slowestMs: 3_000, backMs: 2_000 },
  async run(stage) {
    const { postgres } = stage.world;
    const load = await stage.begin();
    await stage.rest();
    load.writesAreRefused = true;
    await setReadOnly(postgres, 'on');
    await sleep(READ_ONLY_MS);
    await setReadOnly(postgres, 'off');
    await sleep(100);
    stage.markHealed();
    load.writesAreRefused = false;
    const { record } = load;
    stage.expect(record.countLabel('503') > 0, 'nothing was refused: the database was not read-only');
    for (const route of READING)
      stage.expect(record.countErrors(route) === 0, `${route}: ${record.countErrors(route)} errors`);
    await stage.rest();
  },
};

async function setReadOnly(postgres: PostgresServer, value: 'on' | 'off'): Promise<void> {
  await postgres.query(`ALTER SYSTEM SET default_transaction_read_only = ${value}`);
  await postgres.query('SELECT pg_reload_conf()');
}

const run = promisify(execFile);

/** Moves the tables to a small tmpfs, while the WAL stays on the normal disk. Needs root for mount(8). */
async function moveToSmallDisk(cleanup: Cleanup, postgres: PostgresServer, megabytes: number): Promise<void> {
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
