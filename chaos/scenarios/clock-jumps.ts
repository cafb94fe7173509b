import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { makeTemporaryFolder } from '../../tools/postgres.js';
import { statusOf } from '../../tools/server-process.js';
import { keyKinds } from '../actors/key-kinds.js';
import { issueNow, rotateAtOnce, validate } from '../actors/key-life.js';
import { meOf } from '../actors/sessions.js';
import { hasBalancer } from '../balancer.js';
import { now } from '../client.js';
import { FAKETIME, whyNoFaketime } from '../faketime.js';
import type { Replica } from '../replica.js';
import type { Scenario } from '../stage.js';

const DAY_MS = 24 * 3_600_000;
const JUMP_TIMEOUT_MS = 60_000;
const POLL_INTERVAL_MS = 100;

/** The replica whose clock jumps is out of the balancer's rotation, and asked beside it. The load goes on during each jump. */
export const clockJumps: Scenario = {
  name: 'clock-jumps',
  title: 'the clock of a replica jumps by +2 days, then to −2 days, then back',
  // Until the balancer has noticed.
  bounds: { errors: ['503'], silenceMs: 3_000, slowestMs: 3_000 },
  whyNot: () => (hasBalancer ? whyNoFaketime() : 'haproxy is not installed'),
  async run(stage) {
    const { world } = stage;
    const file = join(makeTemporaryFolder(world.cleanup, 'clock'), 'offset');
    const setClock = (days: number): void => writeFileSync(file, `${days < 0 ? '' : '+'}${days}d`);
    setClock(0);
    const ofFirst = {
      LD_PRELOAD: FAKETIME,
      FAKETIME_TIMESTAMP_FILE: file,
      FAKETIME_CACHE_DURATION: '1',
      DONT_FAKE_MONOTONIC: '1',
    };
    const load = await stage.begin({ ofFirst, load: { onlyBalancer: true } });
    const jumping = world.replica(0);
    const [session] = load.kept.sessions;
    const jump = async (days: number): Promise<void> => {
      setClock(days);
      stage.expect(await hasJumped(jumping, days), `the clock did not jump to ${days} days`);
      const expected = days === 0 ? 200 : 503;
      const health = await statusOf(`${jumping.url}/health`);
      stage.expect(health === expected, `/health was ${health} at ${days} days`);
      const answer = session && (await load.ask(meOf(session), jumping.url));
      stage.expect(answer?.status === expected, `an access token was answered ${answer?.status} at ${days} days`);
    };
    await stage.rest();
    await jump(2);
    const rotated = await issueNow(load, keyKinds.node);
    const old = await rotateAtOnce(load, rotated);
    stage.expect(old !== undefined, 'no key was rotated at +2 days');
    await stage.rest();
    await jump(-2);
    // No clock decides about a key that was rotated away without an overlap.
    const accepted = old && (await validate(load, rotated, { key: old, base: jumping.url }));
    stage.expect(accepted === false, 'the old key of a rotation was not refused at −2 days');
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
