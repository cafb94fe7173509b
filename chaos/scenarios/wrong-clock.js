import { now, sleep } from '../client.js';
import { FAKETIME, whyNoFaketime } from '../faketime.js';
import { Replica } from '../replica.js';

const DAYS = 500;
/** Jobs run every minute, the shortest interval. */
const JOBS_TIMEOUT_MS = 120_000;
const JOBS_SETTLE_DELAY_MS = 2_000;
const WARNING = 'clock_skewed_nothing_is_deleted';

export default {
  name: 'wrong-clock',
  title: `two more replicas, their clocks ${DAYS} days ahead and behind, run their jobs beside the others`,
  bounds: { errors: [], silenceMs: 3_000, slowestMs: 3_000 },
  whyNot: whyNoFaketime,
  /** They serve no load: their verdicts are wrong, and only what their jobs delete is tested. */
  async run({ world, quiet, expect }) {
    await quiet();
    const before = await rowsAndMonths(world.postgres);
    const wrong = await Promise.all([startWithClock(world, `+${DAYS}d`), startWithClock(world, `-${DAYS}d`)]);
    for (const replica of wrong) expect(await hasWarned(replica), 'a replica did not notice that its clock is wrong');
    await sleep(JOBS_SETTLE_DELAY_MS);
    const after = await rowsAndMonths(world.postgres);
    for (const [what, kept] of Object.entries(before))
      expect(
        kept.every((id) => after[what].includes(id)),
        `${what} were deleted`,
      );
    for (const replica of wrong) await replica.kill();
    await quiet();
  },
};

async function startWithClock(world, offset) {
  const variables = { LD_PRELOAD: FAKETIME, FAKETIME: offset, DONT_FAKE_MONOTONIC: '1', PURGE_INTERVAL_MINUTES: '1' };
  return (await Replica.create(world.variables(variables))).start();
}

async function hasWarned(replica) {
  for (const deadline = now() + JOBS_TIMEOUT_MS; now() < deadline; await sleep(100))
    if (replica.output.includes(WARNING)) return true;
  return false;
}

/** The ids of everything that retention may delete. */
async function rowsAndMonths(postgres) {
  const namesOf = async (sql) => (await postgres.query(sql)).map(({ name }) => name);
  return {
    sessions: await namesOf('SELECT id AS name FROM sessions'),
    nodes: await namesOf('SELECT id AS name FROM nodes'),
    'app credentials': await namesOf('SELECT id AS name FROM app_credentials'),
    'audit events': await namesOf('SELECT id AS name FROM audit_events'),
    'audit months': await namesOf('SELECT name FROM audit_events_months()'),
  };
}
