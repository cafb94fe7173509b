import { Life } from '../ledger.js';
import { bearer, logIn, login, meEverywhere, refreshOf } from './sessions.js';

/** The ways to end a session. From the acknowledgement on, every replica refuses both of its tokens. */
export const endings = [logOut, logOutByBearer, endByAdmin, disable];

async function logOut(load, user, session) {
  const body = { refresh_token: session.refreshToken };
  await end(load, [session], 'logout', () => load.ask({ path: '/api/v0/auth/logout', body, from: user.from }));
}

async function logOutByBearer(load, user, session) {
  const headers = bearer(session);
  await end(load, [session], 'logout', () => load.ask({ path: '/api/v0/auth/logout', headers, from: user.from }));
}

async function endByAdmin(load, user) {
  let attempts = 0;
  const attempt = () => {
    attempts += 1;
    return load.admin('DELETE', `/users/${user.id}/sessions`);
  };
  await end(load, load.ledger.sessionsOf(user), 'admin', attempt);
  // An attempt without a response may still be done later, and end a session that starts meanwhile: this user starts none.
  if (attempts > 1) user.isDoubtful = true;
}

async function disable(load, user) {
  user.life.ending();
  user.isDoubtful = true;
  const attempts = [];
  const attempt = async () => {
    const answer = await load.admin('PATCH', `/users/${user.id}`, { is_active: false });
    attempts.push(answer.status);
    return answer;
  };
  if (!(await end(load, load.ledger.sessionsOf(user), 'admin', attempt, 200))) return;
  user.life.ended();
  user.isActive = false;
  for (const answer of await load.everywhere(login(user))) load.judge('login', user.email, user.life, answer);
  // An attempt without a response may still be done later: after more than one attempt the user stays disabled.
  if (attempts.length > 1) return;
  const enabled = await load.admin('PATCH', `/users/${user.id}`, { is_active: true });
  if (!load.done('admin', `enabling ${user.email}`, enabled, 200)) return;
  Object.assign(user, { life: new Life(), isActive: true, isDoubtful: false });
  await logIn(load, user);
}

async function end(load, sessions, kind, attempt, expected = 204) {
  for (const { life } of sessions) life.ending();
  const what = `ending session ${sessions.map(({ id }) => id).join(' and ')}`;
  if (!(await load.insist(kind, what, attempt, expected))) return false;
  for (const { life } of sessions) life.ended();
  for (const session of sessions) {
    await meEverywhere(load, session);
    for (const answer of await load.everywhere(refreshOf(session))) {
      load.judge('refresh', `session ${session.id}`, session.life, answer);
    }
  }
  return true;
}
