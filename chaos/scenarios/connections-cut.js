import { sleep } from '../client.js';

const CUTS = 15;
const CUT_INTERVAL_MS = 200;

/** Some transactions are committed and their response is lost. */
export default {
  name: 'connections-cut',
  title: `all connections to the database cut, ${CUTS} times in ${(CUTS * CUT_INTERVAL_MS) / 1_000} s`,
  bounds: { errors: ['503', 'balancer 503'], silenceMs: 4_000, slowestMs: 6_000, backMs: 2_000 },
  async run({ world: { proxy }, quiet, healed }) {
    await quiet();
    for (let cut = 0; cut < CUTS; cut += 1) {
      proxy.cut();
      await sleep(CUT_INTERVAL_MS);
    }
    healed();
    await quiet();
  },
};
