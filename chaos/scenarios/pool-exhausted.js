import pg from 'pg';
import { ask, sleep } from '../client.js';

const LOCKED_MS = 5_000;
const PROBE_INTERVAL_MS = 100;
const MAX_LIVE_MS = 500;

/** A transaction locks all tables, until every connection of every pool waits for it. */
export default {
  name: 'pool-exhausted',
  title: 'all tables locked for 5 s: every connection of the pools waits',
  bounds: { errors: ['503', 'balancer 503'], silenceMs: 9_000, slowestMs: 6_000, backMs: 2_000 },
  variables: { DATABASE_POOL_SIZE: '3' },
  async run({ world: { postgres, replicas }, quiet, healed, expect }) {
    await quiet();
    const locker = new pg.Client({ connectionString: postgres.url });
    await locker.connect();
    await locker.query('BEGIN; LOCK TABLE users, sessions, nodes, app_credentials IN ACCESS EXCLUSIVE MODE');
    const slowest = await probe(replicas, LOCKED_MS);
    await locker.end();
    healed();
    expect(slowest <= MAX_LIVE_MS, `/health/live: ${Math.round(slowest)} ms, over ${MAX_LIVE_MS}`);
    await quiet();
  },
};

/** @returns milliseconds of the slowest response of /health/live; Infinity when one was not 200 */
async function probe(replicas, lengthMs) {
  let slowest = 0;
  for (let probed = 0; probed < lengthMs; probed += PROBE_INTERVAL_MS) {
    const asked = replicas.map(({ url }) => ask(url, { method: 'GET', path: '/health/live', timeoutMs: 2_000 }));
    for (const { status, startedAt, endedAt } of await Promise.all(asked)) {
      slowest = status === 200 ? Math.max(slowest, endedAt - startedAt) : Infinity;
    }
    await sleep(PROBE_INTERVAL_MS);
  }
  return slowest;
}
