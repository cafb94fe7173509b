import type { Scenario } from '../stage.js';

/** Slowness is not an outage: every request has a correct response. */
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
