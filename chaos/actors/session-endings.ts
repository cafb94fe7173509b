import { randomUUID } from 'node:crypto';
import type { Told } from '../acts.js';
import type { Answer } from '../client.js';
import { bearerOf, Life, type Session, type User } from '../ledger.js';
import type { Load } from '../load.js';
import type { Route } from '../record.js';
import { judgeRefresh, logIn, loginOf, meEverywhere, refreshOf } from './sessions.js';

/** Ends a session. Once it is acknowledged, every replica refuses both tokens of the session. */
type Ending = (load: Load, user: User, session: Session) => Promise<void>;

const LOGOUT_PATH = '/api/v0/auth/logout';
const PASSWORD_PATH = '/api/v0/users/me/password';

const ENDINGS: readonly Ending[] = [
  logOut,
  logOutByBearer,
  endByAdmin,
  disable,
  changeEmailByAdmin,
  changePassword,
  deleteByAdmin,
];

let chosen = 0;

/** In turns, so that a short load has all of them. */
export function chooseEnding(): Ending {
  const ending = ENDINGS[chosen % ENDINGS.length] ?? logOut;
  chosen += 1;
  return ending;
}

async function logOut(load: Load, user: User, session: Session): Promise<void> {
  const body = { refresh_token: session.refreshToken };
  const attempt = () => load.ask({ path: LOGOUT_PATH, body, from: user.from });
  await end(load, user, { sessions: [session], route: 'logout', attempt, told: tellLogout(session) });
}

function tellLogout({ id }: Session): Told {
  return { 'session.ended': { reason: 'logout', count: 1, session_id: id } };
}

async function logOutByBearer(load: Load, user: User, session: Session): Promise<void> {
  const headers = bearerOf(session);
  const attempt = () => load.ask({ path: LOGOUT_PATH, headers, from: user.from });
  await end(load, user, { sessions: [session], route: 'logout', attempt, told: tellLogout(session) });
}

async function endByAdmin(load: Load, user: User): Promise<void> {
  let attempts = 0;
  const attempt = (): Promise<Answer> => {
    attempts += 1;
    return load.askAsAdmin('DELETE', `/users/${user.id}/sessions`);
  };
  await end(load, user, { route: 'admin', attempt, told: { 'session.ended': { reason: 'admin' } } });
  if (attempts === 1) return;
  // An attempt without a response may still end a session of a login under way, or a later one, so this user starts none.
  user.isDoubtful = true;
  for (let extra = 1; extra < attempts; extra += 1)
    await load.ledger.perform({ 'session.ended': { reason: 'admin' } }, user.id, () => Promise.resolve(false));
}

async function disable(load: Load, user: User): Promise<void> {
  user.life.markEnding();
  user.isDoubtful = true;
  let attempts = 0;
  const attempt = (): Promise<Answer> => {
    attempts += 1;
    return load.askAsAdmin('PATCH', `/users/${user.id}`, { is_active: false });
  };
  const told = { 'user.disabled': {}, 'session.ended': { reason: 'disabled' } };
  if (!(await end(load, user, { route: 'admin', attempt, expected: 200, told }))) return;
  user.life.markEnded();
  user.isActive = false;
  for (const answer of await load.askEverywhere(loginOf(user))) load.judge('login', user.email, user.life, answer);
  // An attempt without a response may still disable the user later, so after a retry the user stays disabled.
  if (attempts > 1) return;
  const enable = async (): Promise<boolean> => {
    const answer = await load.askAsAdmin('PATCH', `/users/${user.id}`, { is_active: true });
    return load.acknowledge('admin', `enabling ${user.email}`, answer, 200);
  };
  if (!(await load.ledger.perform({ 'user.enabled': {} }, user.id, enable))) return;
  Object.assign(user, { life: new Life(), isActive: true, isDoubtful: false });
  await logIn(load, user);
}

async function changeEmailByAdmin(load: Load, user: User): Promise<void> {
  const email = `${randomUUID()}@example.org`;
  load.ledger.addSecrets(`user ${user.id}`, email);
  let attempts = 0;
  const attempt = (): Promise<Answer> => {
    attempts += 1;
    return load.askAsAdmin('PATCH', `/users/${user.id}`, { email });
  };
  const told = { 'user.email_changed': {}, 'session.ended': { reason: 'admin' } };
  if (!(await end(load, user, { route: 'admin', attempt, expected: 200, told }))) return;
  user.email = email;
  // An attempt without a response may still undo a later change.
  if (attempts > 1) user.isDoubtful = true;
}

/** Not repeated, because an attempt without a response may have replaced the password that authorises it. */
async function changePassword(load: Load, user: User): Promise<void> {
  const ended = load.ledger.listSessions(user);
  const kept = await logIn(load, user);
  if (!kept) return;
  for (const { life } of ended) life.markEnding();
  const body = { current_password: user.password, new_password: `${user.password}!` };
  load.ledger.addSecrets(`user ${user.id}`, body.new_password);
  const requestChange = async (): Promise<boolean> => {
    const answer = await load.ask({ path: PASSWORD_PATH, headers: bearerOf(kept), body, from: user.from });
    return load.acknowledge('account', `a new password of ${user.email}`, answer, 204);
  };
  const told = { 'user.credentials_changed': { what: 'password' }, 'session.ended': { reason: 'password_changed' } };
  if (!(await load.ledger.perform(told, user.id, requestChange))) {
    user.isDoubtful = true;
    return;
  }
  user.password = body.new_password;
  await judgeEnded(load, ended);
}

export async function deleteByAdmin(load: Load, user: User): Promise<void> {
  user.life.markEnding();
  Object.assign(user, { isDoubtful: true, deletion: 'requested' });
  const attempt = (): Promise<Answer> => load.deleteAsAdmin(`/users/${user.id}`);
  const told = { 'user.deleted': {}, 'session.ended': { reason: 'deleted' } };
  if (!(await end(load, user, { route: 'admin', attempt, told }))) return;
  user.life.markEnded();
  user.deletion = 'acknowledged';
  for (const answer of await load.askEverywhere(loginOf(user))) load.judge('login', user.email, user.life, answer);
}

interface EndRequest {
  /** By default all of the user. */
  readonly sessions?: readonly Session[];
  readonly route: Route;
  readonly attempt: () => Promise<Answer>;
  /** The status of an acknowledgement; by default 204. */
  readonly expected?: number;
  readonly told: Told;
}

/** Ends sessions, and checks them everywhere. @returns whether it was acknowledged */
async function end(
  load: Load,
  user: User,
  { sessions = load.ledger.listSessions(user), route, attempt, expected = 204, told }: EndRequest,
): Promise<boolean> {
  for (const { life } of sessions) life.markEnding();
  const what = `ending session ${sessions.map(({ id }) => id).join(' and ')}`;
  const requestEnd = () => load.insist(route, what, attempt, expected);
  if (!(await load.ledger.perform(told, user.id, requestEnd))) return false;
  await judgeEnded(load, sessions);
  return true;
}

async function judgeEnded(load: Load, sessions: readonly Session[]): Promise<void> {
  for (const { life } of sessions) life.markEnded();
  for (const session of sessions) {
    await meEverywhere(load, session);
    for (const answer of await load.askEverywhere(refreshOf(session))) judgeRefresh(load, session, answer);
  }
}
