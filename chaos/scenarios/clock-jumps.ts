import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { makeTemporaryFolder } from '../../tools/postgres.js';
import { keyKinds } from '../actors/key-kinds.js';
import { mintNow, rotateAtOnce, validateEverywhere } from '../actors/key-life.js';
import { refresh } from '../actors/sessions.js';
import { now } from '../client.js';
import { FAKETIME, whyNoFaketime } from '../faketime.js';
import type { Load } from '../load.js';
import type { Replica } from '../replica.js';
import type { Scenario } from '../stage.js';

const DAY_MS = 24 * 3_600_000;
const JUMP_TIMEOUT_MS = 60_000;
const POLL_INTERVAL_MS = 100;

/** Longer than the jumps: a token with a shorter lifetime would expire by a jump forward, which is correct. */
const LONG_LIVES = { ACCESS_TOKEN_EXPIRE_MINUTES: String(14 * 24 * 60) };

export const clockJumps: Scenario = {
  name: 'clock-jumps',
  title: 'the clock of all replicas jumps by +2 days, then to −2 days, then back',
  bounds: { errors: [], silenceMs: 3_000, slowestMs: 3_000 },
  whyNot: whyNoFaketime,
  async run(stage) {
    const { world } = stage;
    const file = join(makeTemporaryFolder(world.cleanup, 'clock'), 'offset');
    const setClock = (days: number): void => writeFileSync(file, `${days < 0 ? '' : '+'}${days}d`);
    setClock(0);
    const variables = {
      ...LONG_LIVES,
      LD_PRELOAD: FAKETIME,
      FAKETIME_TIMESTAMP_FILE: file,
      FAKETIME_CACHE_DURATION: '1',
      DONT_FAKE_MONOTONIC: '1',
    };
    // A refresh repeated on another replica around a jump would be days apart, far beyond the grace.
    const load = await stage.begin({ variables, load: { repeatsRefreshes: false } });
    // Without load: the replicas jump up to a second apart, and meanwhile refuse tokens that a replica ahead of them issued.
    const jump = async (days: number, beforeLoad?: () => Promise<void>): Promise<void> => {
      const resume = await load.pause();
      setClock(days);
      for (const replica of world.replicas)
        stage.expect(await hasJumped(replica, days), `a clock did not jump to ${days} days`);
      await beforeLoad?.();
      resume();
    };
    await stage.rest();
    await jump(2);
    const rotated = await mintNow(load, keyKinds.node);
    const old = await rotateAtOnce(load, rotated);
    stage.expect(old !== undefined, 'no key was rotated at +2 days');
    await stage.rest();
    await jump(-2, () => renewAccessTokens(load));
    if (old) await validateEverywhere(load, rotated, old);
    await stage.rest();
    await jump(0);
    await stage.rest();
  },
};

/** Waits until the Date header of a replica's responses shows the changed clock. */
async function hasJumped({ url }: Replica, days: number): Promise<boolean> {
  for (const deadline = now() + JUMP_TIMEOUT_MS; now() < deadline;) {
    const { headers, body } = await fetch(`${url}/health/live`);
    await body?.cancel();
    const ahead = Date.parse(headers.get('date') ?? '') - Date.now();
    if (Math.abs(ahead - days * DAY_MS) < DAY_MS / 24) return true;
    await sleep(POLL_INTERVAL_MS);
  }
  return false;
}

/**
 * A clock that goes back refuses access tokens that were issued ahead of it: their `exp` lies more than their lifetime and
 * 60 s in the future. The refresh tokens stay valid, by the clock of PostgreSQL.
 */
async function renewAccessTokens(load: Load): Promise<void> {
  for (const session of load.ledger.sessions.filter(({ life }) => !life.isDoubtful && !life.isOver)) {
    if (!session.isDoubtful) await refresh(load, session);
    if (session.isDoubtful) session.life.markEnding();
  }
}
