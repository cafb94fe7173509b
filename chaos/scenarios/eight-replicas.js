const REPLICAS = 8;

export default {
  name: 'eight-replicas',
  title: 'eight replicas start at once on an empty database',
  bounds: { errors: [], silenceMs: 3_000, slowestMs: 3_000 },
  prepare: ({ world }) => world.startReplicas({}, REPLICAS),
  async run({ world: { postgres }, quiet, expect }) {
    const [{ all, different }] = await postgres.query(
      'SELECT count(*)::int AS all, count(DISTINCT name)::int AS different FROM migrations',
    );
    expect(all > 0 && all === different, `${all} migrations ran, of ${different}`);
    await quiet();
  },
};
