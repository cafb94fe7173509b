import { join } from 'node:path';
import { z } from 'zod';
import type { Variables } from '../../src/foundation/config/environment.js';
import type { PostgresServer } from '../../tools/postgres-server.js';
import { issueBothNow, revokeThrough, validate, validateEverywhere } from '../actors/key-life.js';
import { deleteByAdmin } from '../actors/session-endings.js';
import { verifyKey, verifySessionEverywhere } from '../actors/verifiers.js';
import { makeTemporaryFolder } from '../../tools/postgres.js';
import type { Credential, Session } from '../ledger.js';
import type { Scenario, Stage } from '../stage.js';
import { startProxy } from '../world.js';
import { meEverywhere } from '../actors/sessions.js';
import { startSessionNow } from '../actors/user-life.js';

const IDS = 2_000;
/** Long enough for each replica to poll the old primary and later the new one (the backoff is at most 1.5 s). */
const HEARD_MS = 1_000;
const BACK_MS = 3_000;

/**
 * The old primary assigns transaction ids that are not replicated, and the promoted standby assigns the same ids to
 * revocations after every replica's cursor has passed them. The load is paused meanwhile, because its writes would wait
 * for the standby.
 */
function failover(name: string, words: string, variables: Variables): Scenario {
  return {
    name,
    title: `primary: kill -9, its standby is promoted and assigns transaction ids anew, ${words}`,
    bounds: { errors: ['503', 'balancer 503'], silenceMs: 30_000, slowestMs: 6_000, backMs: 4_000 },
    async run(stage) {
      const { cleanup, postgres } = stage.world;
      const replication = await startProxy(cleanup, postgres);
      const standby = await postgres.withStandby({ isSynchronous: true, port: replication.port });
      const load = await stage.begin({ variables, verifiers: true });
      await stage.rest();
      const resume = await load.pause();
      const known = await issueBothNow(load);
      for (const credential of known) await validateEverywhere(load, credential);
      stage.markInjected();
      replication.blackHole(true);
      await assignIds(postgres, IDS);
      await stage.wait(HEARD_MS);
      const seen = await readNextId(postgres);
      await postgres.kill();
      await standby.promote();
      stage.expect((await readNextId(standby)) < seen, 'the promoted standby did not assign an id a second time');
      for (const credential of known) await revokeOn(standby, credential);
      // A replica that compared only the newest id would not notice the failover.
      await assignIds(standby, 2 * IDS);
      stage.world.failOver(standby);
      await stage.wait(BACK_MS);
      for (const credential of known) await expectDead(stage, credential);
      stage.markHealed();
      resume();
      await stage.rest();
    },
  };
}

async function revokeOn(standby: PostgresServer, { kind, id, key }: Credential): Promise<void> {
  key.life.markEnding();
  await standby.query(`UPDATE ${kind.table} SET revoked_at = now() WHERE id = $1`, [id]);
}

async function expectDead(stage: Stage, credential: Credential): Promise<void> {
  const { load, world } = stage;
  const { key } = credential;
  key.life.markEnded();
  credential.isRevoked = true;
  load.ledger.revoked.push(credential);
  for (const { url } of world.replicas) {
    const wasAccepted = await stage.verdictOf(() => validate(load, credential, { base: url }));
    stage.expect(wasAccepted === false, `${key.name} was not refused after the failover`);
  }
  for (const verifier of load.verifiers) {
    const wasAccepted = await stage.verdictOf(() => verifyKey(load, verifier, credential));
    stage.expect(
      wasAccepted === false,
      `${key.name} was not refused by the ${verifier.name} verifier after the failover`,
    );
  }
}

export const failoverReusesIds = failover('failover-reuses-ids', 'without a grace', {});
export const failoverReusesIdsWithGrace = failover('failover-reuses-ids-grace', 'with OUTAGE_GRACE_SECONDS=3600', {
  OUTAGE_GRACE_SECONDS: '3600',
});

/** Long enough for each replica to poll the restored database (the backoff is at most 1.5 s). */
const RESTORED_HEARD_MS = 3_000;

/**
 * Keys that were issued since the backup do not exist any more, but caches hold them; and transaction ids that cursors
 * have passed are assigned again. The load pauses before the restore, and the ledger forgets what the database forgot.
 * What was ended since the backup is back, until `platform-auth replay` ends it again.
 */
export const restored: Scenario = {
  name: 'restored',
  title: 'PostgreSQL: restored to an earlier moment, which assigns transaction ids anew',
  bounds: { errors: ['503', 'balancer 503'], silenceMs: 30_000, slowestMs: 6_000, backMs: 2_000 },
  async run(stage) {
    const { postgres, replicas } = stage.world;
    const load = await stage.begin({ verifiers: true, consumers: true });
    stage.markInjected();
    const resumeAfterBackup = await load.pause();
    const ended: Ended = { credentials: await issueBothNow(load), session: await startSessionNow(load) };
    const backedUpAt = new Date().toISOString();
    const backup = await postgres.backUp();
    await stage.wait(RESTORED_HEARD_MS);
    const rewind = load.ledger.mark();
    resumeAfterBackup();
    await stage.rest();
    const resume = await load.pause();
    for (const credential of ended.credentials) await revokeThrough(load, credential);
    await deleteByAdmin(load, ended.session.user);
    const log = join(makeTemporaryFolder(stage.world.cleanup, 'replay'), 'audit.ndjson');
    await stage.world.runCli('audit', 'export', '--from-database', '--output', log);
    const known = await issueBothNow(load);
    const session = await startSessionNow(load);
    for (const credential of known) await validateEverywhere(load, credential);
    await meEverywhere(load, session);
    await assignIds(postgres, IDS);
    const seen = await readNextId(postgres);
    for (const { life } of [session, ...known.map(({ key }) => key)]) life.markEnding();
    await postgres.restore(backup);
    rewind();
    stage.markHealed();
    stage.expect((await readNextId(postgres)) < seen, 'the restored database did not assign an id a second time');
    resume();
    await stage.wait(RESTORED_HEARD_MS);
    for (const { life } of [session, ...known.map(({ key }) => key)]) life.markEnded();
    for (const credential of known) {
      for (const { url } of replicas) {
        const wasAccepted = await stage.verdictOf(() => validate(load, credential, { base: url }));
        stage.expect(wasAccepted === false, `${credential.key.name} was not refused after the restore`);
      }
    }
    await stage.expectVerifiersRefuse(known);
    await verifySessionEverywhere(load, session);
    await replay(stage, ['replay', log, '--since', backedUpAt, '--yes'], ended);
    await stage.rest();
  },
};

/** What was there at the time of the backup, and ended before the restore. */
interface Ended {
  readonly credentials: readonly Credential[];
  readonly session: Session;
}

/**
 * Ends again what the audit log says was ended, which is then told anew, and resets the services that read events: on the
 * same timeline only those that hold a cursor of lost events notice a restore.
 */
async function replay(stage: Stage, command: readonly string[], { credentials, session }: Ended): Promise<void> {
  const { load, world } = stage;
  stage.events = { resets: true, since: Date.now(), forgets: true };
  await world.runCli(...command);
  for (const credential of credentials) {
    load.ledger.addActs(credential.kind.told.revoked, credential.id);
    credential.isRevoked = true;
    await validateEverywhere(load, credential);
  }
  load.ledger.addActs({ 'user.deleted': {}, 'session.ended': { reason: 'deleted' } }, session.user.id);
  await meEverywhere(load, session);
}

const nextIds = z.tuple([z.object({ id: z.string() })]);

/** Uses up transaction ids. */
async function assignIds(postgres: PostgresServer, count: number): Promise<void> {
  await postgres.query(
    `DO $$ BEGIN FOR n IN 1..${count} LOOP PERFORM pg_current_xact_id(); ROLLBACK; END LOOP; END $$`,
  );
}

/** @returns the id of the next transaction */
async function readNextId(postgres: PostgresServer): Promise<bigint> {
  const rows = await postgres.query('SELECT pg_snapshot_xmax(pg_current_snapshot())::text AS id');
  const [{ id }] = nextIds.parse(rows);
  return BigInt(id);
}
