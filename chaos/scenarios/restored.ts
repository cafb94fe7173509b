import { issueBothNow, validate, validateEverywhere } from '../actors/key-life.js';
import { verifySessionEverywhere } from '../actors/verifiers.js';
import { meEverywhere } from '../actors/sessions.js';
import { startSessionNow } from '../actors/user-life.js';
import type { Scenario } from '../stage.js';
import { assignIds, readNextId } from '../transaction-ids.js';

const IDS = 2_000;
/** Long enough for each replica to poll the database that was restored (backoff of at most 1.5 s). */
const HEARD_MS = 3_000;

/**
 * What was minted since does not exist any more, but replicas and verifiers remember it; and transaction ids that their
 * cursors have passed are assigned anew. The load rests before the restore, and the ledger
 * forgets what the database forgot.
 */
export const restored: Scenario = {
  name: 'restored',
  title: 'PostgreSQL: restored to an earlier moment, which assigns transaction ids anew',
  bounds: { errors: ['503', 'balancer 503'], silenceMs: 30_000, slowestMs: 6_000, backMs: 2_000 },
  async run(stage) {
    const { postgres, replicas } = stage.world;
    const load = await stage.begin({ verifiers: true });
    stage.markInjected();
    const resumeAfterBackup = await load.pause();
    const backup = await postgres.backUp();
    await stage.wait(HEARD_MS);
    const rewind = load.ledger.mark();
    resumeAfterBackup();
    await stage.rest();
    const resume = await load.pause();
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
    await stage.wait(HEARD_MS);
    for (const { life } of [session, ...known.map(({ key }) => key)]) life.markEnded();
    for (const credential of known) {
      for (const { url } of replicas) {
        const wasAccepted = await stage.verdictOf(() => validate(load, credential, { base: url }));
        stage.expect(wasAccepted === false, `${credential.key.name} was not refused after the restore`);
      }
    }
    await stage.expectVerifiersRefuse(known);
    await verifySessionEverywhere(load, session);
    await stage.rest();
  },
};
