/** Slowness is not an outage: every request has a correct response. */
export default {
  name: 'slow-network',
  title: 'every packet to and from the database 200 ms late',
  bounds: { errors: [], silenceMs: 6_000, slowestMs: 6_000, backMs: 2_000 },
  async run({ world: { proxy }, quiet, healed }) {
    await quiet();
    proxy.delayMs = { toDatabase: 200, toService: 200 };
    await quiet();
    await quiet();
    proxy.delayMs = { toDatabase: 0, toService: 0 };
    healed();
    await quiet();
  },
};
