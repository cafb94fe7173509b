import pg from 'pg';
import { kinds } from '../actors/key-kinds.js';
import { mint, validate, validateEverywhere } from '../actors/key-life.js';
import { defer } from '../cleanup.js';
import { sleep } from '../client.js';

const NODES = 300_000;
const SHORT_RUN_NODES = 30_000;
const SHORT_SECONDS = 2;
/** Longer than a lease and one poll of the feed. */
const HEARD_MS = 1_500;

/** More keys change than one response of the feed names, while a transaction stays open in another database. */
export default {
  name: 'bulk-change',
  title: `one UPDATE changes ${NODES} keys (${SHORT_RUN_NODES} with --short), and a transaction is open in another database`,
  bounds: { errors: ['503'], silenceMs: 8_000, slowestMs: 8_000, backMs: 3_000 },
  async run({ world, seconds, quiet, healed, expect }) {
    const { load, postgres, replicas } = world;
    await postgres.query(
      `INSERT INTO nodes (id, household_id, room, name, key_digest, created_at, updated_at)
       SELECT gen_random_uuid(), gen_random_uuid(), 'hall', 'one of many', decode(repeat('00', 32), 'hex'), now(), now()
       FROM generate_series(1, $1)`,
      [seconds < SHORT_SECONDS ? SHORT_RUN_NODES : NODES],
    );
    await quiet();
    await leaveTransactionOpen(postgres);
    const changed = await mint(load, kinds.node);
    await validateEverywhere(load, changed, changed.key);
    changed.key.life.ending();
    await postgres.query(`UPDATE nodes SET revoked_at = now() WHERE name = 'one of many' OR id = $1`, [changed.id]);
    healed();
    await sleep(HEARD_MS);
    changed.key.life.ended();
    changed.isRevoked = true;
    await validateEverywhere(load, changed, changed.key);
    await quiet();
    // Pause the load, whose requests the lock would block.
    const resume = await load.pause();
    const [kept] = load.kept.credentials;
    for (const { url } of replicas) await validate(load, kept, kept.key, undefined, url);
    await whileNoKeyCanBeRead(postgres, async () => {
      for (const { url } of replicas) {
        const accepted = await validate(load, kept, kept.key, undefined, url);
        expect(accepted === true, `${kept.key.name} was not answered from the cache of ${url}`);
      }
    });
    resume();
  },
};

async function leaveTransactionOpen(postgres) {
  await postgres.query('CREATE DATABASE elsewhere');
  const client = new pg.Client({
    connectionString: Object.assign(new URL(postgres.url), { pathname: '/elsewhere' }).href,
  });
  client.on('error', () => undefined);
  await client.connect();
  defer(() => client.end());
  await client.query('BEGIN; SELECT pg_current_xact_id()');
}

async function whileNoKeyCanBeRead(postgres, check) {
  const client = new pg.Client({ connectionString: postgres.url });
  await client.connect();
  try {
    await client.query('BEGIN; LOCK TABLE nodes, app_credentials IN ACCESS EXCLUSIVE MODE');
    await check();
  } finally {
    await client.end();
  }
}
