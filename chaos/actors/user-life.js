import { randomUUID } from 'node:crypto';
import { someAddress } from '../addresses.js';
import { Life, NEVER } from '../ledger.js';
import { endings } from './session-endings.js';
import { logIn, login, me, meEverywhere, refresh } from './sessions.js';

const REFRESHES = 4;

/** Registers a user who repeatedly logs in, refreshes, and is logged out, ended by the admin or disabled. */
export async function userLife(load) {
  const user = await register(load);
  if (!user) return load.think(100);
  await load.judge('login', `${user.email} with another password`, NEVER, await load.ask(login(user, 'of another')));
  for (let round = 0; round < 2 && !load.isOver && !user.isDoubtful; round += 1) {
    const session = await logIn(load, user);
    if (!session) {
      await load.think(100);
      continue;
    }
    for (let step = 0; step < REFRESHES && !load.isOver && !session.isDoubtful; step += 1) {
      await me(load, session);
      await refresh(load, session);
      await load.think();
    }
    await meEverywhere(load, session);
    if (!load.isOver) await endings[Math.floor(Math.random() * endings.length)](load, user, session);
  }
}

/** @returns undefined when the request was not acknowledged */
export async function register(load) {
  const user = { email: `${randomUUID()}@example.org`, password: 'a passphrase of chaos', from: someAddress() };
  const { email, password, from } = user;
  const answer = await load.ask({ path: '/api/v0/auth/register', body: { email, password }, from });
  if (!load.done('register', email, answer, 201)) return undefined;
  Object.assign(user, { id: answer.body.id, isActive: true, isDoubtful: false, life: new Life() });
  load.ledger.users.push(user);
  return user;
}
