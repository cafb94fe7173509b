import { hasBalancer } from '../balancer.js';
import { now } from '../client.js';
import type { Scenario } from '../stage.js';

const STOP_TIMEOUT_MS = 15_000;

/** Callers behind the load balancer are not affected. */
export const rollingRestart: Scenario = {
  name: 'rolling-restart',
  title: 'each replica in turn: SIGTERM, exit 0, started again',
  bounds: { errors: [], silenceMs: 2_000, slowestMs: 2_000 },
  whyNot: () => (hasBalancer ? undefined : 'haproxy is not installed'),
  async run(stage) {
    await stage.begin({ load: { onlyBalancer: true } });
    await stage.rest();
    for (const [index, replica] of stage.world.replicas.entries()) {
      const askedAt = now();
      const code = await replica.server.stop();
      const name = `replica ${index + 1}`;
      stage.expect(code === 0, `${name} exited with ${String(code)}`);
      const bound = stage.scale(STOP_TIMEOUT_MS);
      stage.expect(now() - askedAt < bound, `${name} took more than ${bound} ms to stop`);
      await replica.start();
    }
    await stage.rest();
  },
};
