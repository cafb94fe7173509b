import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import type { Scenario } from '../stage.js';

const DOWN_MS = 2_000;

export const postgresKilled: Scenario = {
  name: 'postgres-killed',
  title: 'PostgreSQL: kill -9, back after 2 s',
  bounds: { errors: ['503', 'balancer 503'], silenceMs: 6_000, slowestMs: 6_000, backMs: 2_000 },
  async run(stage) {
    const { postgres } = stage.world;
    await stage.begin({ verifiers: true, consumers: true });
    await stage.rest();
    stage.markInjected();
    await postgres.kill();
    await sleep(DOWN_MS);
    await postgres.startAgain();
    stage.markHealed();
    await stage.rest();
  },
};

const replications = z.array(z.object({ sync_state: z.string() }));

/** A commit is acknowledged only after the standby has applied it, so no acknowledged write may be lost. */
export const standbyPromoted: Scenario = {
  name: 'standby-promoted',
  title: 'primary: kill -9, its streaming standby is promoted',
  bounds: { errors: ['503', 'balancer 503'], silenceMs: 6_000, slowestMs: 6_000, backMs: 2_000 },
  async run(stage) {
    const { world } = stage;
    const { postgres } = world;
    const standby = await postgres.withStandby({ isSynchronous: true });
    await stage.begin({ verifiers: true, consumers: true });
    // Each failover is another timeline.
    stage.events = { resets: true, forgets: false };
    await stage.rest();
    const rows = replications.parse(await postgres.query('SELECT sync_state FROM pg_stat_replication'));
    stage.expect(rows[0]?.sync_state === 'sync', 'the standby was not synchronous');
    stage.markInjected();
    await postgres.kill();
    await standby.promote();
    world.failOver(standby);
    stage.markHealed();
    await stage.rest();
  },
};

const CUTS = 15;
const CUT_INTERVAL_MS = 200;

/** Some transactions commit although their response is lost. */
export const connectionsCut: Scenario = {
  name: 'connections-cut',
  title: `all connections to the database cut, ${CUTS} times in ${(CUTS * CUT_INTERVAL_MS) / 1_000} s`,
  bounds: { errors: ['503', 'balancer 503'], silenceMs: 4_000, slowestMs: 6_000, backMs: 2_000 },
  async run(stage) {
    await stage.begin({ consumers: true });
    await stage.rest();
    for (let cut = 0; cut < CUTS; cut += 1) {
      stage.world.proxy.cut();
      await sleep(CUT_INTERVAL_MS);
    }
    stage.markHealed();
    await stage.rest();
  },
};

const HOLE_MS = 10_000;

/** Connections stay open but no byte arrives, so only the service's own timeouts end the wait. */
export const blackHole: Scenario = {
  name: 'black-hole',
  title: 'the database swallows everything for 10 s',
  bounds: { errors: ['503', 'balancer 503'], silenceMs: 14_000, slowestMs: 6_000, backMs: 2_000 },
  async run(stage) {
    const { proxy } = stage.world;
    await stage.begin();
    await stage.rest();
    proxy.blackHole(true);
    await sleep(HOLE_MS);
    proxy.blackHole(false);
    stage.markHealed();
    await stage.rest();
  },
};

/** Slowness is not an outage: every request must get a correct response. */
export const slowNetwork: Scenario = {
  name: 'slow-network',
  title: 'every packet to and from the database 200 ms late',
  bounds: { errors: [], silenceMs: 6_000, slowestMs: 6_000, backMs: 2_000 },
  async run(stage) {
    const { proxy } = stage.world;
    await stage.begin();
    await stage.rest();
    proxy.delayMs = { upstream: 200, downstream: 200 };
    await stage.rest();
    await stage.rest();
    proxy.delayMs = { upstream: 0, downstream: 0 };
    stage.markHealed();
    await stage.rest();
  },
};
