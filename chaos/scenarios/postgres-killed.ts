import { setTimeout as sleep } from 'node:timers/promises';
import type { Scenario } from '../stage.js';

const DOWN_MS = 2_000;

export const postgresKilled: Scenario = {
  name: 'postgres-killed',
  title: 'PostgreSQL: kill -9, back after 2 s',
  bounds: { errors: ['503', 'balancer 503'], silenceMs: 6_000, slowestMs: 6_000, backMs: 2_000 },
  async run(stage) {
    const { postgres } = stage.world;
    await stage.begin({ verifiers: true });
    await stage.rest();
    stage.markInjected();
    await postgres.kill();
    await sleep(DOWN_MS);
    await postgres.startAgain();
    stage.markHealed();
    await stage.rest();
  },
};
