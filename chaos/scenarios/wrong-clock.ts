import { replaceSettings } from '../../tools/replace-settings.js';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import type { PostgresServer } from '../../tools/postgres-server.js';
import { statusOf } from '../../tools/server-process.js';
import { now } from '../client.js';
import { FAKETIME, whyNoFaketime } from '../faketime.js';
import { Replica } from '../replica.js';
import type { Scenario } from '../stage.js';
import type { World } from '../world.js';

const DAYS = 500;
/** Jobs run every minute, the shortest interval. */
const JOBS_TIMEOUT_MS = 120_000;
const JOBS_SETTLE_DELAY_MS = 2_000;
const POLL_INTERVAL_MS = 100;
const WARNING = 'clock_skewed_nothing_is_deleted';

/** The names of everything that retention may delete, by what it is. */
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
  /** They are unready and serve no load: what their jobs delete is tested. */
  async run(stage) {
    const { world } = stage;
    await stage.begin();
    await stage.rest();
    const before = await readNames(world.postgres);
    const wrong = await Promise.all([startWithClock(world, `+${DAYS}d`), startWithClock(world, `-${DAYS}d`)]);
    for (const replica of wrong) {
      stage.expect((await statusOf(`${replica.url}/health`)) === 503, 'a replica whose clock is wrong was ready');
      stage.expect(await hasWarned(replica), 'a replica did not notice that its clock is wrong');
    }
    await sleep(JOBS_SETTLE_DELAY_MS);
    const after = await readNames(world.postgres);
    for (const [what, names] of before) {
      const left = after.get(what);
      stage.expect(
        [...names].every((name) => left?.has(name)),
        `${what} were deleted`,
      );
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
  const replica = await Replica.create(world.cleanup, world.variables(variables), isAlive);
  await replica.start();
  return replica;
}

async function hasWarned(replica: Replica): Promise<boolean> {
  for (const deadline = now() + JOBS_TIMEOUT_MS; now() < deadline;) {
    if (replica.countInLog(WARNING) > 0) return true;
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
