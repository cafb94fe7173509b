import pg from 'pg';
import { kinds } from '../actors/key-kinds.js';
import { mint, validate, validateEverywhere } from '../actors/key-life.js';
import { later } from '../cleanup.js';
import { sleep } from '../client.js';

const NODES = 300_000;
const NODES_OF_A_SHORT_RUN = 30_000;
const SHORT_SECONDS = 2;
/** Longer than a lease and the answer to a question. */
const HEARD_MS = 1_500;

/** Far more keys change than replicas care to hear of, while a transaction stays open in another database. */
export default {
  name: 'bulk-change',
  title: `one UPDATE changes ${NODES} keys (${NODES_OF_A_SHORT_RUN} with --short), and a transaction is open in another database`,
  bounds: { errors: ['503'], silenceMs: 8_000, slowestMs: 8_000, backMs: 3_000 },
  async run({ world, seconds, quiet, healed, expect }) {
    const { load, postgres, replicas } = world;
    await postgres.query(
      `INSERT INTO nodes (id, household_id, room, name, key_digest, created_at, updated_at)
       SELECT gen_random_uuid(), gen_random_uuid(), 'hall', 'one of many', decode(repeat('00', 32), 'hex'), now(), now()
       FROM generate_series(1, $1)`,
      [seconds < SHORT_SECONDS ? NODES_OF_A_SHORT_RUN : NODES],
    );
    await quiet();
    await leaveTransactionOpen(postgres);
    const doomed = await mint(load, kinds.node);
    await validateEverywhere(load, doomed, doomed.key);
    doomed.key.life.ending();
    await postgres.query(`UPDATE nodes SET revoked_at = now() WHERE name = 'one of many' OR id = $1`, [doomed.id]);
    healed();
    await sleep(HEARD_MS);
    doomed.key.life.ended();
    doomed.isRevoked = true;
    await validateEverywhere(load, doomed, doomed.key);
    await quiet();
    // Without other requests, which the lock would stop.
    const resume = await load.pause();
    const [kept] = load.kept.credentials;
    for (const { url } of replicas) await validate(load, kept, kept.key, undefined, url);
    await whileNoKeyCanBeRead(postgres, async () => {
      for (const { url } of replicas) {
        const accepted = await validate(load, kept, kept.key, undefined, url);
        expect(accepted === true, `${kept.key.name} did not come from the cache of ${url}`);
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
  later(() => client.end());
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
