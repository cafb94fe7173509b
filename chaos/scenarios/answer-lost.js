import { logIn, refreshOf } from '../actors/sessions.js';
import { register } from '../actors/user-life.js';
import { sleep } from '../client.js';

const SESSIONS = 12;
const HELD_MS = 400;
const COMMIT_TIMEOUT_MS = 3_000;
const POLL_INTERVAL_MS = 20;

/** The database commits, the response is delayed, and the replica that waits for it is killed: acceptance 15. */
export default {
  name: 'answer-lost',
  title: 'a replica: kill -9 between the commits of refreshes and their answers',
  bounds: { errors: ['network', 'balancer 502', 'balancer 503'], silenceMs: 3_000, slowestMs: 4_000, backMs: 2_000 },
  async run({ world: { replicas, proxy, load, postgres }, quiet, healed, expect }) {
    const sessions = [];
    for (let made = 0; made < SESSIONS; made += 1) sessions.push(await logIn(load, await register(load)));
    await quiet();
    proxy.delayMs = { toDatabase: 0, toService: HELD_MS };
    const lost = sessions.map((session) => load.ask(refreshOf(session), replicas[0].url));
    const ids = sessions.map(({ id }) => id);
    const committed = () =>
      postgres.query('SELECT 1 FROM sessions WHERE id = ANY($1) AND generation = 1', [ids]).then((rows) => rows.length);
    for (let waitedMs = 0; waitedMs < COMMIT_TIMEOUT_MS && (await committed()) === 0; waitedMs += POLL_INTERVAL_MS)
      await sleep(POLL_INTERVAL_MS);
    await replicas[0].kill();
    const statuses = (await Promise.all(lost)).map(({ status }) => status);
    proxy.delayMs = { toDatabase: 0, toService: 0 };
    expect(
      (await committed()) > 0 && statuses.every((status) => status === 'network'),
      'no refresh was committed without a response',
    );
    for (const session of sessions) {
      const [first, second] = [await retry(load, session, replicas[1]), await retry(load, session, replicas[2])];
      expect(first !== undefined && first === second, `session ${session.id}: the retries got different successors`);
    }
    await replicas[0].start();
    healed();
    await quiet();
  },
};

async function retry(load, session, { url }) {
  const answer = await load.ask(refreshOf(session), url);
  load.judge('refresh', `session ${session.id}`, session.life, answer);
  return answer.body?.refresh_token;
}
