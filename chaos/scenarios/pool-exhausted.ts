import { setTimeout as sleep } from 'node:timers/promises';
import { withClient } from '../../tools/postgres.js';
import { send } from '../client.js';
import { lockTables } from '../lock-tables.js';
import type { Replica } from '../replica.js';
import type { Scenario } from '../stage.js';

const LOCKED_MS = 5_000;
const PROBE_INTERVAL_MS = 100;
const PROBE_TIMEOUT_MS = 2_000;
const MAX_LIVE_MS = 500;

/** A transaction locks all tables, until every connection of every pool waits for it. */
export const poolExhausted: Scenario = {
  name: 'pool-exhausted',
  title: 'all tables locked for 5 s: every connection of the pools waits',
  bounds: { errors: ['503', 'balancer 503'], silenceMs: 9_000, slowestMs: 6_000, backMs: 2_000 },
  async run(stage) {
    const { postgres, replicas } = stage.world;
    await stage.begin({ variables: { DATABASE_POOL_SIZE: '3' } });
    await stage.rest();
    const slowest = await withClient(postgres.url, async (locker) => {
      await lockTables(locker, ['users', 'sessions', 'nodes', 'app_credentials']);
      return probe(replicas, LOCKED_MS);
    });
    stage.markHealed();
    const bound = stage.scale(MAX_LIVE_MS);
    stage.expect(slowest <= bound, `/health/live: ${Math.round(slowest)} ms, over ${bound}`);
    await stage.rest();
  },
};

/** @returns milliseconds of the slowest response of /health/live; Infinity when one was not 200 */
async function probe(replicas: readonly Replica[], lengthMs: number): Promise<number> {
  let slowest = 0;
  const request = { method: 'GET', path: '/health/live', timeoutMs: PROBE_TIMEOUT_MS };
  for (let probedMs = 0; probedMs < lengthMs; probedMs += PROBE_INTERVAL_MS) {
    const answers = await Promise.all(replicas.map(({ url }) => send(url, request)));
    for (const { status, startedAt, endedAt } of answers) {
      slowest = status === 200 ? Math.max(slowest, endedAt - startedAt) : Infinity;
    }
    await sleep(PROBE_INTERVAL_MS);
  }
  return slowest;
}
