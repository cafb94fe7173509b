import { sleep } from '../client.js';

const DOWN_MS = 2_000;

/** Its callers retry on another replica; the load balancer notices within two health checks. */
export default {
  name: 'replica-killed',
  title: 'a replica: kill -9, started again after 2 s',
  bounds: { errors: ['network', 'balancer 502', 'balancer 503'], silenceMs: 2_000, slowestMs: 3_000, backMs: 2_000 },
  async run({ world: { replicas }, quiet, healed }) {
    await quiet();
    await replicas[1].kill();
    await sleep(DOWN_MS);
    await replicas[1].start();
    healed();
    await quiet();
  },
};
