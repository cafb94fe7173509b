import { mayStillHappen, sleep } from '../client.js';
import { Life } from '../ledger.js';

const RETRY_INTERVAL_MS = 100;

export function login(user, password = user.password) {
  return { path: '/api/v0/auth/login', body: { email: user.email, password }, from: user.from };
}

export function bearer({ accessToken }) {
  return { Authorization: `Bearer ${accessToken}` };
}

/** @returns undefined when the login did not succeed */
export async function logIn(load, user) {
  const answer = await load.ask(login(user));
  if (!load.judge('login', user.email, user.life, answer)) return undefined;
  const { access_token: accessToken, refresh_token: refreshToken } = answer.body;
  const id = JSON.parse(Buffer.from(accessToken.split('.')[1], 'base64url').toString()).sid;
  const session = { id, user, accessToken, refreshToken, generation: 0, life: new Life(), isDoubtful: false };
  load.ledger.sessions.push(session);
  return session;
}

const meOf = (session) => ({
  method: 'GET',
  path: '/api/v0/users/me',
  headers: bearer(session),
  from: session.user.from,
});

export async function me(load, session) {
  load.judge('users/me', `session ${session.id}`, session.life, await load.ask(meOf(session)));
}

export async function meEverywhere(load, session) {
  for (const answer of await load.everywhere(meOf(session))) {
    load.judge('users/me', `session ${session.id}`, session.life, answer);
  }
}

export function refreshOf(session) {
  return { path: '/api/v0/auth/refresh', body: { refresh_token: session.refreshToken }, from: session.user.from };
}

/**
 * One rotation, sometimes requested on every replica at once, and retried until there is a response. It is idempotent
 * within the grace: every response carries the same successor.
 */
export async function refresh(load, session) {
  const request = refreshOf(session);
  const repeats = load.repeatsRefreshes && Math.random() < 0.3;
  const answers = repeats ? await load.everywhere(request) : [await load.ask(request)];
  let successor = judgeAll(load, session, answers, undefined);
  while (successor === undefined && !load.isOver && !session.isDoubtful) {
    await sleep(RETRY_INTERVAL_MS);
    const answer = await load.ask(request);
    answers.push(answer);
    successor = judgeAll(load, session, [answer], successor);
  }
  if (successor === undefined) return;
  // An attempt that arrives after the successor was used counts as reuse: this session is not refreshed any more.
  if (answers.some(mayStillHappen)) return void (session.isDoubtful = true);
  const { accessToken, refreshToken } = successor;
  Object.assign(session, { accessToken, refreshToken, generation: session.generation + 1 });
}

function judgeAll(load, session, answers, successor) {
  for (const answer of answers) {
    const accepted = load.judge('refresh', `session ${session.id}`, session.life, answer);
    // A refusal is either wrong or the end of a session in doubt: this session cannot be judged any more.
    if (accepted === false) session.isDoubtful = true;
    if (!accepted) continue;
    const { access_token: accessToken, refresh_token: refreshToken } = answer.body;
    if (successor && successor.refreshToken !== refreshToken) {
      load.record.wrongVerdict(`refresh of session ${session.id}: two successors of one token`);
    }
    successor = { accessToken, refreshToken };
  }
  return successor;
}
