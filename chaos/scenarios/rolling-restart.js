import { hasBalancer } from '../balancer.js';
import { now } from '../client.js';

const STOP_TIMEOUT_MS = 15_000;

/** Callers behind the load balancer are not affected. */
export default {
  name: 'rolling-restart',
  title: 'each replica in turn: SIGTERM, exit 0, started again',
  bounds: { errors: [], silenceMs: 2_000, slowestMs: 2_000 },
  load: { onlyBalancer: true },
  whyNot: () => (hasBalancer ? undefined : 'haproxy is not installed'),
  async run({ world: { replicas }, quiet, expect }) {
    await quiet();
    for (const [index, replica] of replicas.entries()) {
      const askedAt = now();
      replica.signal('SIGTERM');
      const code = await replica.exited();
      expect(code === 0, `replica ${index + 1} exited with ${code}`);
      expect(now() - askedAt < STOP_TIMEOUT_MS, `replica ${index + 1} took more than ${STOP_TIMEOUT_MS} ms to stop`);
      await replica.start();
    }
    await quiet();
  },
};
