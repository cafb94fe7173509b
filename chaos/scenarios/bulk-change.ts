import pg from 'pg';
import { withClient } from '../../tools/postgres.js';
import type { PostgresServer } from '../../tools/postgres-server.js';
import { keyKinds } from '../actors/key-kinds.js';
import { issueNow, validate, validateEverywhere } from '../actors/key-life.js';
import { lockTables } from '../lock-tables.js';
import type { Scenario, Stage } from '../stage.js';

const NODES = 300_000;
const SHORT_RUN_NODES = 30_000;
const SHORT_SECONDS = 2;
/** Longer than a lease and one poll of the feed. */
const HEARD_MS = 1_500;

/** More keys change than one response of the feed names, while a transaction stays open in another database. */
export const bulkChange: Scenario = {
  name: 'bulk-change',
  title: `one UPDATE changes ${NODES} keys (${SHORT_RUN_NODES} with --short), and a transaction is open in another database`,
  bounds: { errors: ['503'], silenceMs: 8_000, slowestMs: 8_000, backMs: 3_000 },
  async run(stage) {
    const { postgres } = stage.world;
    const load = await stage.begin({ verifiers: true });
    await insertNodes(postgres, stage.seconds < SHORT_SECONDS ? SHORT_RUN_NODES : NODES);
    await stage.rest();
    await leaveTransactionOpen(stage);
    const changed = await issueNow(load, keyKinds.node);
    await validateEverywhere(load, changed);
    changed.key.life.markEnding();
    stage.markInjected();
    await postgres.query(`UPDATE nodes SET revoked_at = now() WHERE name = 'one of many' OR id = $1`, [changed.id]);
    stage.markHealed();
    await stage.wait(HEARD_MS);
    changed.key.life.markEnded();
    changed.isRevoked = true;
    await validateEverywhere(load, changed);
    await stage.rest();
    // Pause the load, whose requests the lock would block.
    const resume = await load.pause();
    await expectCached(stage);
    resume();
  },
};

async function insertNodes(postgres: PostgresServer, count: number): Promise<void> {
  await postgres.query(
    `INSERT INTO nodes (id, household_id, room, name, key_digest, created_at, updated_at)
     SELECT gen_random_uuid(), gen_random_uuid(), 'hall', 'one of many', decode(repeat('00', 32), 'hex'), now(), now()
     FROM generate_series(1, $1)`,
    [count],
  );
}

async function leaveTransactionOpen({ world: { postgres, cleanup } }: Stage): Promise<void> {
  await postgres.query('CREATE DATABASE elsewhere');
  const url = Object.assign(new URL(postgres.url), { pathname: '/elsewhere' });
  const client = new pg.Client({ connectionString: url.href });
  client.on('error', () => undefined);
  await client.connect();
  cleanup.defer(() => client.end());
  await client.query('BEGIN; SELECT pg_current_xact_id()');
}

/** Every replica validates a key from its cache: it cannot be read from the database. */
async function expectCached(stage: Stage): Promise<void> {
  const { load, world } = stage;
  const [kept] = load.kept.credentials;
  if (!kept) throw new Error('The load has no kept credentials');
  for (const { url } of world.replicas) {
    // A lease may end while a busy machine takes the lock: the replica then cannot look, and answers 503.
    const wasAccepted = await stage.verdictOf(async () => {
      await validate(load, kept, { base: url });
      return withClient(world.postgres.url, async (locker) => {
        await lockTables(locker, ['nodes', 'app_credentials']);
        return validate(load, kept, { base: url });
      });
    });
    stage.expect(wasAccepted === true, `${kept.key.name} was not answered from the cache of ${url}`);
  }
}
