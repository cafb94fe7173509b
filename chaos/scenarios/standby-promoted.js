/** A commit is acknowledged only after the standby has applied it, so that no acknowledged write is lost. */
export default {
  name: 'standby-promoted',
  title: 'primary: kill -9, its streaming standby is promoted',
  bounds: { errors: ['503', 'balancer 503'], silenceMs: 6_000, slowestMs: 6_000, backMs: 2_000 },
  async prepare({ world }) {
    world.standby = await world.postgres.withStandby();
  },
  async run({ world, quiet, healed, expect }) {
    await quiet();
    const [replication] = await world.postgres.query('SELECT sync_state FROM pg_stat_replication');
    expect(replication?.sync_state === 'sync', 'the standby was not synchronous');
    await world.postgres.kill();
    await world.standby.control('promote', '--wait');
    world.postgres = world.standby;
    world.proxy.targetPort = world.standby.port;
    world.proxy.cut();
    healed();
    await quiet();
  },
};
