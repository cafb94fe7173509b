import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { statusOf } from '../../tools/server-process.js';
import { FAKETIME, SharedClock, whyNoFaketime } from '../../tools/shared-clock.js';
import { keyKinds } from '../actors/key-kinds.js';
import { issueNow, rotateAtOnce, validate } from '../actors/key-life.js';
import { meOf } from '../actors/sessions.js';
import { hasBalancer } from '../balancer.js';
import { now } from '../client.js';
import { Replica } from '../replica.js';
import type { Scenario } from '../stage.js';
import { replaceSettings } from '../../tools/replace-settings.js';
import type { PostgresServer } from '../../tools/postgres-server.js';
import { verifyAudit } from '../verify-audit.js';
import type { World } from '../world.js';

const DAY_SECONDS = 24 * 3_600;
const DAY_MS = DAY_SECONDS * 1_000;
const JUMP_TIMEOUT_MS = 60_000;
const POLL_INTERVAL_MS = 100;

/**
 * The replica whose clock jumps is asked directly, because the balancer takes it out of its rotation. The load goes on
 * during each jump.
 */
export const clockJumps: Scenario = {
  name: 'clock-jumps',
  title: 'the clock of a replica jumps by +2 days, then to −2 days, then back',
  // The balancer needs this long to notice.
  bounds: { errors: ['503'], silenceMs: 3_000, slowestMs: 3_000 },
  whyNot: () => (hasBalancer ? whyNoFaketime() : 'haproxy is not installed'),
  async run(stage) {
    const { world } = stage;
    const clock = new SharedClock(world.cleanup);
    const load = await stage.begin({ ofFirst: clock.variables, load: { onlyBalancer: true } });
    const jumping = world.replica(0);
    const [session] = load.kept.sessions;
    const jump = async (days: number): Promise<void> => {
      clock.set(days * DAY_SECONDS);
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
    // A key that was rotated away without an overlap is refused, whatever the clock says.
    const accepted = old && (await validate(load, rotated, { key: old, base: jumping.url }));
    stage.expect(accepted === false, 'the old key of a rotation was not refused at −2 days');
    await stage.rest();
    await jump(0);
    await stage.rest();
  },
};

/** Waits until the Date header of the replica shows the changed clock. */
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

/** More than the ten seconds between two comparisons of the clocks. */
const COMPARISON_DELAY_MS = 12_000;
/** Seconds, and whether the replicas still give verdicts: they tolerate a minute, which is measured on either side. */
const JUMPS: readonly (readonly [number, boolean | undefined])[] = [
  [-1, true],
  [-60, undefined],
  [-DAY_SECONDS, false],
  [400 * DAY_SECONDS, false],
];
const FOUND_ROW = 'SELECT id, event, time, recorded_at FROM audit_events WHERE id = $1';

/**
 * The load rests until every replica has compared the clocks: until then one would rotate a refresh token in what is the
 * future of another.
 */
export const postgresClock: Scenario = {
  name: 'postgres-clock',
  title: 'the clock of PostgreSQL jumps by −1 second, −1 minute, −1 day and +400 days, and back each time',
  bounds: { errors: ['503', 'balancer 503'], silenceMs: 120_000, slowestMs: 5_000 },
  whyNot: whyNoFaketime,
  async run(stage) {
    const { world } = stage;
    const clock = new SharedClock(world.cleanup);
    await world.postgres.restartWith(clock.variables);
    const load = await stage.begin();
    const [session] = load.kept.sessions;
    const jump = async (seconds: number, givesVerdicts?: boolean): Promise<void> => {
      const resume = await load.pause();
      clock.set(seconds);
      await sleep(COMPARISON_DELAY_MS);
      for (const { url } of world.replicas) {
        const answer = session && (await load.ask(meOf(session), url));
        if (givesVerdicts === undefined) continue;
        const expected = givesVerdicts ? 200 : 503;
        stage.expect(answer?.status === expected, `an access token was answered ${answer?.status} at ${seconds} s`);
      }
      resume();
      await stage.rest();
    };
    await stage.rest();
    for (const [seconds, givesVerdicts] of JUMPS) {
      await jump(seconds, givesVerdicts);
      await jump(0, true);
    }
    // Not through the proxy, which this process runs and the call blocks.
    const direct = { ...world.variables(), DATABASE_URL: world.postgres.url };
    for (const finding of verifyAudit(direct)) {
      const [row] = await world.postgres.query(FOUND_ROW, [finding.row]);
      stage.expect(false, `audit verify: ${JSON.stringify({ ...finding, row })}`);
    }
  },
};

const DAYS = 500;
/** Jobs run every minute, their shortest interval. */
const JOBS_TIMEOUT_MS = 120_000;
const JOBS_SETTLE_DELAY_MS = 2_000;
const WARNING = 'clock_skewed_nothing_is_deleted';

/** What retention may delete, by name. */
const KEPT = {
  sessions: 'SELECT id AS name FROM sessions',
  nodes: 'SELECT id AS name FROM nodes',
  'app credentials': 'SELECT id AS name FROM app_credentials',
  'audit events': 'SELECT id AS name FROM audit_events',
  'audit months': 'SELECT name FROM audit_events_months()',
};
const namesRead = z.array(z.object({ name: z.union([z.string(), z.number()]) }));

export const wrongClock: Scenario = {
  name: 'wrong-clock',
  title: `two more replicas, their clocks ${DAYS} days ahead and behind, run their jobs beside the others`,
  bounds: { errors: [], silenceMs: 3_000, slowestMs: 3_000 },
  whyNot: whyNoFaketime,
  /** These replicas are unready and serve no load: only what their jobs delete is tested. */
  async run(stage) {
    const { world } = stage;
    const load = await stage.begin();
    await stage.rest();
    const before = await readNames(world.postgres);
    const wrong = await Promise.all([startWithClock(world, `+${DAYS}d`), startWithClock(world, `-${DAYS}d`)]);
    for (const replica of wrong) {
      stage.expect((await statusOf(`${replica.url}/health`)) === 503, 'a replica whose clock is wrong was ready');
      stage.expect(await hasWarned(replica), 'a replica did not notice that its clock is wrong');
    }
    await sleep(JOBS_SETTLE_DELAY_MS);
    const after = await readNames(world.postgres);
    // The sessions of a user whom the load deleted are gone with the user.
    const gone = new Set(load.ledger.sessions.filter(({ user }) => user.deletion).map(({ id }) => id));
    for (const [what, names] of before) {
      const deleted = [...names].filter((name) => !after.get(what)?.has(name) && !gone.has(String(name)));
      stage.expect(deleted.length === 0, `${deleted.length} ${what} were deleted: ${deleted.slice(0, 3).join(', ')}`);
    }
    for (const replica of wrong) await replica.kill();
    await stage.rest();
  },
};

async function startWithClock(world: World, offset: string): Promise<Replica> {
  const variables = {
    LD_PRELOAD: FAKETIME,
    FAKETIME: offset,
    DONT_FAKE_MONOTONIC: '1',
    NODE_OPTIONS: replaceSettings({ purgeIntervalMinutes: 1 }),
  };
  const isAlive = async (url: string): Promise<boolean> => (await statusOf(`${url}/health/live`)) === 200;
  const replica = await Replica.create(world.cleanup, world.variables(variables), { isReady: isAlive });
  await replica.start();
  return replica;
}

async function hasWarned(replica: Replica): Promise<boolean> {
  for (const deadline = now() + JOBS_TIMEOUT_MS; now() < deadline;) {
    if (replica.countInLog(WARNING) > 0) return true;
    if (replica.server.hasExited) throw new Error('A replica whose clock is wrong has exited');
    await sleep(POLL_INTERVAL_MS);
  }
  return false;
}

async function readNames(postgres: PostgresServer): Promise<Map<string, Set<string | number>>> {
  const names = new Map<string, Set<string | number>>();
  for (const [what, sql] of Object.entries(KEPT)) {
    const rows = namesRead.parse(await postgres.query(sql));
    names.set(what, new Set(rows.map(({ name }) => name)));
  }
  return names;
}
