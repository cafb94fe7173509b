import type { Answer } from '../client.js';
import { bearerOf, Life, type Session, type User } from '../ledger.js';
import type { Load } from '../load.js';
import type { Route } from '../record.js';
import { judgeRefresh, logIn, loginOf, meEverywhere, refreshOf } from './sessions.js';

/** Ends a session. Once it is acknowledged, every replica refuses both tokens of the session. */
type Ending = (load: Load, user: User, session: Session) => Promise<void>;

const LOGOUT_PATH = '/api/v0/auth/logout';

export const endings: readonly Ending[] = [logOut, logOutByBearer, endByAdmin, disable];

async function logOut(load: Load, { from }: User, session: Session): Promise<void> {
  const body = { refresh_token: session.refreshToken };
  await end(load, [session], { route: 'logout', attempt: () => load.ask({ path: LOGOUT_PATH, body, from }) });
}

async function logOutByBearer(load: Load, { from }: User, session: Session): Promise<void> {
  const headers = bearerOf(session);
  await end(load, [session], { route: 'logout', attempt: () => load.ask({ path: LOGOUT_PATH, headers, from }) });
}

async function endByAdmin(load: Load, user: User): Promise<void> {
  let attempts = 0;
  const attempt = (): Promise<Answer> => {
    attempts += 1;
    return load.askAsAdmin('DELETE', `/users/${user.id}/sessions`);
  };
  await end(load, load.ledger.listSessions(user), { route: 'admin', attempt });
  // An attempt without a response may still end a later session, so this user starts none.
  if (attempts > 1) user.isDoubtful = true;
}

async function disable(load: Load, user: User): Promise<void> {
  user.life.markEnding();
  user.isDoubtful = true;
  let attempts = 0;
  const attempt = (): Promise<Answer> => {
    attempts += 1;
    return load.askAsAdmin('PATCH', `/users/${user.id}`, { is_active: false });
  };
  if (!(await end(load, load.ledger.listSessions(user), { route: 'admin', attempt, expected: 200 }))) return;
  user.life.markEnded();
  user.isActive = false;
  for (const answer of await load.askEverywhere(loginOf(user))) load.judge('login', user.email, user.life, answer);
  // An attempt without a response may still disable the user later, so after a retry the user stays disabled.
  if (attempts > 1) return;
  const enabled = await load.askAsAdmin('PATCH', `/users/${user.id}`, { is_active: true });
  if (!load.acknowledge('admin', `enabling ${user.email}`, enabled, 200)) return;
  Object.assign(user, { life: new Life(), isActive: true, isDoubtful: false });
  await logIn(load, user);
}

interface EndRequest {
  readonly route: Route;
  readonly attempt: () => Promise<Answer>;
  /** The status of an acknowledgement; by default 204. */
  readonly expected?: number;
}

/** Ends sessions, and checks them everywhere. @returns whether it was acknowledged */
async function end(
  load: Load,
  sessions: readonly Session[],
  { route, attempt, expected = 204 }: EndRequest,
): Promise<boolean> {
  for (const { life } of sessions) life.markEnding();
  const what = `ending session ${sessions.map(({ id }) => id).join(' and ')}`;
  if (!(await load.insist(route, what, attempt, expected))) return false;
  for (const { life } of sessions) life.markEnded();
  for (const session of sessions) {
    await meEverywhere(load, session);
    for (const answer of await load.askEverywhere(refreshOf(session))) judgeRefresh(load, session, answer);
  }
  return true;
}
