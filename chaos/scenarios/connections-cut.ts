import { setTimeout as sleep } from 'node:timers/promises';
import type { Scenario } from '../stage.js';

const CUTS = 15;
const CUT_INTERVAL_MS = 200;

/** Some transactions are committed and their response is lost. */
export const connectionsCut: Scenario = {
  name: 'connections-cut',
  title: `all connections to the database cut, ${CUTS} times in ${(CUTS * CUT_INTERVAL_MS) / 1_000} s`,
  bounds: { errors: ['503', 'balancer 503'], silenceMs: 4_000, slowestMs: 6_000, backMs: 2_000 },
  async run(stage) {
    await stage.begin();
    await stage.rest();
    for (let cut = 0; cut < CUTS; cut += 1) {
      stage.world.proxy.cut();
      await sleep(CUT_INTERVAL_MS);
    }
    stage.markHealed();
    await stage.rest();
  },
};
