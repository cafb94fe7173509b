import { sleep } from '../client.js';

const HOLE_MS = 10_000;

/** Connections stay open and no byte arrives: only the service's own timeouts end the wait. */
export default {
  name: 'black-hole',
  title: 'the database swallows everything for 10 s',
  bounds: { errors: ['503', 'balancer 503'], silenceMs: 14_000, slowestMs: 6_000, backMs: 2_000 },
  async run({ world: { proxy }, quiet, healed }) {
    await quiet();
    proxy.blackHole(true);
    await sleep(HOLE_MS);
    proxy.blackHole(false);
    healed();
    await quiet();
  },
};
