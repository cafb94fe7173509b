import { setTimeout as sleep } from 'node:timers/promises';
import { judgeRefresh, readTokens, refreshOf } from '../actors/sessions.js';
import { startSessionNow } from '../actors/user-life.js';
import type { Session } from '../ledger.js';
import type { Load } from '../load.js';
import type { Replica } from '../replica.js';
import type { Scenario, Stage } from '../stage.js';

const SESSIONS = 12;
const MAX_ATTEMPTS = 5;
const HELD_MS = 400;
const COMMIT_TIMEOUT_MS = 3_000;
const POLL_INTERVAL_MS = 20;

/** The database commits, the response is delayed, and the replica that waits for it is killed. */
export const answerLost: Scenario = {
  name: 'answer-lost',
  title: 'a replica: kill -9 between the commits of refreshes and their answers',
  bounds: { errors: ['network', 'balancer 502', 'balancer 503'], silenceMs: 3_000, slowestMs: 4_000, backMs: 2_000 },
  async run(stage) {
    const { world } = stage;
    const load = await stage.begin();
    const [victim, second, third] = [world.replica(0), world.replica(1), world.replica(2)];
    let sessions = await loseAnswers(stage, load, victim);
    // On a busy machine an answer may leave before the kill, so the scenario tries again.
    for (let attempt = 1; sessions === undefined && attempt < MAX_ATTEMPTS; attempt += 1) {
      await victim.start();
      sessions = await loseAnswers(stage, load, victim);
    }
    stage.expect(sessions !== undefined, 'no refresh was committed without a response');
    for (const session of sessions ?? []) {
      const successors = [await retry(load, session, second), await retry(load, session, third)];
      const areEqual = successors[0] !== undefined && successors[0] === successors[1];
      stage.expect(areEqual, `session ${session.id}: the retries got different successors`);
    }
    await victim.start();
    stage.markHealed();
    await stage.rest();
  },
};

/** @returns sessions whose refreshes got no answer, with at least one of them committed; otherwise undefined */
async function loseAnswers(stage: Stage, load: Load, victim: Replica): Promise<Session[] | undefined> {
  const sessions: Session[] = [];
  for (let made = 0; made < SESSIONS; made += 1) sessions.push(await startSessionNow(load));
  await stage.rest();
  const { world } = stage;
  world.proxy.delayMs = { upstream: 0, downstream: HELD_MS };
  const lost = sessions.map((session) => load.ask(refreshOf(session), victim.url));
  const ids = sessions.map(({ id }) => id);
  const isAnyCommitted = async (): Promise<boolean> => {
    const sql = 'SELECT 1 FROM sessions WHERE id = ANY($1) AND generation = 1';
    return (await world.postgres.query(sql, [ids])).length > 0;
  };
  for (let waitedMs = 0; waitedMs < COMMIT_TIMEOUT_MS && !(await isAnyCommitted()); waitedMs += POLL_INTERVAL_MS)
    await sleep(POLL_INTERVAL_MS);
  await victim.kill();
  const statuses = (await Promise.all(lost)).map(({ status }) => status);
  world.proxy.delayMs = { upstream: 0, downstream: 0 };
  const isLost = (await isAnyCommitted()) && statuses.every((status) => status === 'network');
  return isLost ? sessions : undefined;
}

/** @returns the next refresh token; undefined when the retry was not accepted */
async function retry(load: Load, session: Session, { url }: Replica): Promise<string | undefined> {
  const answer = await load.ask(refreshOf(session), url);
  return judgeRefresh(load, session, answer) ? readTokens(answer).refreshToken : undefined;
}
