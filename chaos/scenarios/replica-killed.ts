import { setTimeout as sleep } from 'node:timers/promises';
import type { Scenario } from '../stage.js';

const DOWN_MS = 2_000;

/** Its callers retry on another replica; the load balancer notices within two health checks. */
export const replicaKilled: Scenario = {
  name: 'replica-killed',
  title: 'a replica: kill -9, started again after 2 s',
  bounds: { errors: ['network', 'balancer 502', 'balancer 503'], silenceMs: 2_000, slowestMs: 3_000, backMs: 2_000 },
  async run(stage) {
    await stage.begin({ verifiers: true });
    await stage.rest();
    const victim = stage.world.replica(1);
    stage.markInjected();
    await victim.kill();
    await sleep(DOWN_MS);
    await victim.start();
    stage.markHealed();
    await stage.rest();
  },
};
