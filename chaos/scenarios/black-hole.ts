import { setTimeout as sleep } from 'node:timers/promises';
import type { Scenario } from '../stage.js';

const HOLE_MS = 10_000;

/** Connections stay open and no byte arrives: only the service's own timeouts end the wait. */
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
