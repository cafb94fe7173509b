import { appendFileSync, rmSync, statfsSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { keyKinds } from '../actors/key-kinds.js';
import { mint } from '../actors/key-life.js';
import type { Load } from '../load.js';
import type { HotRoute } from '../record.js';
import { moveToSmallDisk } from '../small-disk.js';
import type { Scenario } from '../stage.js';

const DISK_MB = 96;
const FULL_MS = 4_000;
const MAX_ROWS = 1_000;
const MAX_CHUNK_BLOCKS = 256;
const READING: readonly HotRoute[] = ['validate-node', 'validate-app', 'users/me'];

/** The tables cannot grow. Routes that only read continue to work. */
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
  for (let made = 0; made < MAX_ROWS && (await mint(load, keyKinds.node)); made += 1);
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
