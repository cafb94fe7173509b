import { z } from 'zod';
import type { Scenario } from '../stage.js';

const replications = z.array(z.object({ sync_state: z.string() }));

/** A commit is acknowledged only after the standby has applied it, so that no acknowledged write is lost. */
export const standbyPromoted: Scenario = {
  name: 'standby-promoted',
  title: 'primary: kill -9, its streaming standby is promoted',
  bounds: { errors: ['503', 'balancer 503'], silenceMs: 6_000, slowestMs: 6_000, backMs: 2_000 },
  async run(stage) {
    const { world } = stage;
    const { postgres } = world;
    const standby = await postgres.withStandby({ isSynchronous: true });
    await stage.begin({ verifiers: true });
    await stage.rest();
    const rows = replications.parse(await postgres.query('SELECT sync_state FROM pg_stat_replication'));
    stage.expect(rows[0]?.sync_state === 'sync', 'the standby was not synchronous');
    stage.markInjected();
    await postgres.kill();
    await standby.promote();
    world.failOver(standby);
    stage.markHealed();
    await stage.rest();
  },
};
