import { z } from 'zod';
import type { Scenario } from '../stage.js';

const REPLICAS = 8;
const counts = z.tuple([z.object({ all: z.int(), different: z.int() })]);

export const eightReplicas: Scenario = {
  name: 'eight-replicas',
  title: 'eight replicas start at once on an empty database',
  bounds: { errors: [], silenceMs: 3_000, slowestMs: 3_000 },
  async run(stage) {
    await stage.begin({ replicas: REPLICAS });
    const [{ all, different }] = counts.parse(
      await stage.world.postgres.query(
        'SELECT count(*)::int AS all, count(DISTINCT name)::int AS different FROM migrations',
      ),
    );
    stage.expect(all > 0 && all === different, `${all} migrations ran, of ${different}`);
    await stage.rest();
  },
};
