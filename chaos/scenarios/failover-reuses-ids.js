import { kinds } from '../actors/key-kinds.js';
import { mint, validate, validateEverywhere } from '../actors/key-life.js';
import { defer } from '../cleanup.js';
import { sleep } from '../client.js';
import { TcpProxy } from '../tcp-proxy.js';

const IDS = 2_000;
/** Long enough for each replica to poll the old primary, and later the new one (backoff of at most 1.5 s). */
const HEARD_MS = 1_000;
const BACK_MS = 3_000;

/**
 * The old primary assigns transaction ids that are not replicated, every replica's cursor moves past them, and the promoted
 * standby assigns the same ids to revocations. The load is paused meanwhile: its writes would wait for the standby.
 */
function failover(name, words, variables) {
  return {
    name,
    title: `primary: kill -9, its standby is promoted and assigns transaction ids anew, ${words}`,
    variables,
    bounds: { errors: ['503', 'balancer 503'], silenceMs: 30_000, slowestMs: 6_000, backMs: 4_000 },
    async prepare({ world }) {
      world.standby = await world.postgres.withStandby(async (port) => {
        world.replication = await new TcpProxy(port).open();
        defer(() => world.replication.close());
        return world.replication.server.address().port;
      });
    },
    async run({ world, quiet, healed, expect }) {
      await quiet();
      const { load, postgres, standby } = world;
      const resume = await load.pause();
      const remembered = [await mint(load, kinds.node), await mint(load, kinds.app)];
      for (const credential of remembered) await validateEverywhere(load, credential, credential.key);
      world.replication.blackHole(true);
      await assignIds(postgres, IDS);
      await sleep(HEARD_MS);
      const seen = await nextId(postgres);
      await postgres.kill();
      await standby.control('promote', '--wait');
      expect((await nextId(standby)) < seen, 'the promoted standby did not assign an id a second time');
      for (const { kind, id, key } of remembered) {
        key.life.ending();
        await standby.query(`UPDATE ${kind.table} SET revoked_at = now() WHERE id = $1`, [id]);
      }
      // A replica that compares only the newest id would not notice the failover.
      await assignIds(standby, 2 * IDS);
      world.postgres = standby;
      world.proxy.targetPort = standby.port;
      world.proxy.cut();
      await sleep(BACK_MS);
      for (const credential of remembered) await expectDead(world, credential, expect);
      healed();
      resume();
      await quiet();
    },
  };
}

async function expectDead({ load, ledger, replicas }, credential, expect) {
  const { key } = credential;
  key.life.ended();
  credential.isRevoked = true;
  ledger.revoked.push(credential);
  for (const { url } of replicas) {
    const accepted = await validate(load, credential, key, undefined, url);
    expect(accepted === false, `${key.name} was not refused after the failover`);
  }
}

async function assignIds(postgres, count) {
  await postgres.query(
    `DO $$ BEGIN FOR n IN 1..${count} LOOP PERFORM pg_current_xact_id(); ROLLBACK; END LOOP; END $$`,
  );
}

async function nextId(postgres) {
  const [{ id }] = await postgres.query('SELECT pg_snapshot_xmax(pg_current_snapshot())::text AS id');
  return BigInt(id);
}

export const failoverReusesIds = failover('failover-reuses-ids', 'without a grace', {});
export const failoverReusesIdsWithGrace = failover('failover-reuses-ids-grace', 'with OUTAGE_GRACE_SECONDS=3600', {
  OUTAGE_GRACE_SECONDS: '3600',
});
