import { appendFileSync, rmSync, statfsSync } from 'node:fs';
import { join } from 'node:path';
import { kinds } from '../actors/key-kinds.js';
import { mint } from '../actors/key-life.js';
import { sleep } from '../client.js';

const DISK_MB = 96;
const FULL_MS = 4_000;
const MAX_ROWS = 1_000;
const READING = ['validate-node', 'validate-app', 'users/me'];

/** The tables cannot grow. Routes that only read continue to work. */
export default {
  name: 'disk-full',
  title: 'the disk of the tables is full for 4 s',
  bounds: { errors: ['503'], silenceMs: 7_000, slowestMs: 6_000, backMs: 2_000 },
  whyNot: () =>
    process.platform === 'linux' && process.getuid() === 0 ? undefined : 'only root can mount a small disk',
  prepare: ({ world }) => world.postgres.ontoSmallDisk(DISK_MB),
  async run({ world: { postgres, load, record }, quiet, healed, expect }) {
    await quiet();
    load.writesAreRefused = true;
    const ballast = join(postgres.cluster, 'ballast');
    fill(postgres.cluster, ballast);
    await Promise.all([sleep(FULL_MS), growUntilRefused(load)]);
    rmSync(ballast);
    healed();
    await sleep(100);
    load.writesAreRefused = false;
    expect(record.countOf('503') > 0, 'nothing was refused: the disk was not full');
    for (const kind of READING) expect(record.errorsOf(kind) === 0, `${kind}: ${record.errorsOf(kind)} errors`);
    await quiet();
  },
};

/** Rows that fit into existing pages are still written, and must not be lost. */
async function growUntilRefused(load) {
  for (let made = 0; made < MAX_ROWS && (await mint(load, kinds.node)); made += 1);
}

function fill(folder, file) {
  const { bsize } = statfsSync(folder);
  for (let left = statfsSync(folder).bfree; left > 0; left = statfsSync(folder).bfree) {
    try {
      appendFileSync(file, Buffer.alloc(Math.min(left, 256) * bsize, 1));
    } catch (error) {
      if (error.code !== 'ENOSPC') throw error;
    }
  }
}
