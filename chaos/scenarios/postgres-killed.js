import { sleep } from '../client.js';

const DOWN_MS = 2_000;

export default {
  name: 'postgres-killed',
  title: 'PostgreSQL: kill -9, back after 2 s',
  bounds: { errors: ['503', 'balancer 503'], silenceMs: 6_000, slowestMs: 6_000, backMs: 2_000 },
  async run({ world: { postgres }, quiet, healed }) {
    await quiet();
    await postgres.kill();
    await sleep(DOWN_MS);
    await postgres.startAgain();
    healed();
    await quiet();
  },
};
