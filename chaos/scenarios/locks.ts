import pg, { DatabaseError, type Client } from 'pg';
import { setTimeout as sleep } from 'node:timers/promises';
import { withClient } from '../../tools/postgres.js';
import type { PostgresServer } from '../../tools/postgres-server.js';
import { keyKinds } from '../actors/key-kinds.js';
import { issueNow, validate, validateEverywhere } from '../actors/key-life.js';
import type { Scenario, Stage } from '../stage.js';
import { send } from '../client.js';
import type { Replica } from '../replica.js';

const NODES = 300_000;
const SHORT_RUN_NODES = 30_000;
const SHORT_SECONDS = 2;
/** Longer than a lease and one poll of the feed. */
const HEARD_MS = 1_500;

/** More keys change than one response of the feed can name, while a transaction stays open in another database. */
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
    // The lock would block the requests of the load.
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

/** Every replica must validate a key from its cache, because the lock keeps it from the database. */
async function expectCached(stage: Stage): Promise<void> {
  const { load, world } = stage;
  const [kept] = load.kept.credentials;
  if (!kept) throw new Error('The load has no kept credentials');
  for (const { url } of world.replicas) {
    // A lease may end while a busy machine takes the lock; the replica then answers 503.
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

const DEADLOCK = '40P01';
const MAX_ATTEMPTS = 5;

/**
 * Begins a transaction that locks tables. Tries again after a deadlock: a transaction of a replica may hold one table
 * and wait for another.
 */
async function lockTables(client: Client, tables: readonly string[]): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    await client.query('BEGIN');
    try {
      await client.query(`LOCK TABLE ${tables.join(', ')} IN ACCESS EXCLUSIVE MODE`);
      return;
    } catch (error) {
      const isDeadlock = error instanceof DatabaseError && error.code === DEADLOCK;
      if (!isDeadlock || attempt === MAX_ATTEMPTS) throw error;
      await client.query('ROLLBACK');
    }
  }
}

const LOCKED_MS = 5_000;
const PROBE_INTERVAL_MS = 100;
const PROBE_TIMEOUT_MS = 2_000;
const MAX_LIVE_MS = 500;

/** A transaction locks all tables until every connection of every pool waits for it. */
export const poolExhausted: Scenario = {
  name: 'pool-exhausted',
  title: 'all tables locked for 5 s: every connection of the pools waits',
  bounds: { errors: ['503', 'balancer 503'], silenceMs: 9_000, slowestMs: 6_000, backMs: 2_000 },
  async run(stage) {
    const { postgres, replicas } = stage.world;
    await stage.begin({ variables: { DATABASE_POOL_SIZE: '3' } });
    await stage.rest();
    const slowest = await withClient(postgres.url, async (locker) => {
      await lockTables(locker, ['users', 'sessions', 'nodes', 'app_credentials']);
      return probe(replicas, LOCKED_MS);
    });
    stage.markHealed();
    const bound = stage.scale(MAX_LIVE_MS);
    stage.expect(slowest <= bound, `/health/live: ${Math.round(slowest)} ms, over ${bound}`);
    await stage.rest();
  },
};

/** @returns the slowest response of /health/live in milliseconds; Infinity when one was not 200 */
async function probe(replicas: readonly Replica[], lengthMs: number): Promise<number> {
  let slowest = 0;
  const request = { method: 'GET', path: '/health/live', timeoutMs: PROBE_TIMEOUT_MS };
  for (let probedMs = 0; probedMs < lengthMs; probedMs += PROBE_INTERVAL_MS) {
    const answers = await Promise.all(replicas.map(({ url }) => send(url, request)));
    for (const { status, startedAt, endedAt } of answers) {
      slowest = status === 200 ? Math.max(slowest, endedAt - startedAt) : Infinity;
    }
    await sleep(PROBE_INTERVAL_MS);
  }
  return slowest;
}
