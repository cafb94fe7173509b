import { sleep } from '../client.js';

const CUTS = 15;
const BETWEEN_MS = 200;

/** Some of what is cut off was committed and its answer lost. */
export default {
  name: 'connections-cut',
  title: `all connections to the database cut, ${CUTS} times in ${(CUTS * BETWEEN_MS) / 1_000} s`,
  bounds: { errors: ['503', 'balancer 503'], silenceMs: 4_000, slowestMs: 6_000, backMs: 2_000 },
  async run({ world: { proxy }, quiet, healed }) {
    await quiet();
    for (let cut = 0; cut < CUTS; cut += 1) {
      proxy.cut();
      await sleep(BETWEEN_MS);
    }
    healed();
    await quiet();
  },
};
