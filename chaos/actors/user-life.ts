import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import { Life, NEVER, type Session, type User } from '../ledger.js';
import type { Load } from '../load.js';
import { randomAddress } from '../random.js';
import { chooseEnding } from './session-endings.js';
import { logIn, loginOf, me, meEverywhere, refresh } from './sessions.js';

const ROUNDS = 2;
const REFRESHES = 4;
const registered = z.object({ id: z.string() });

/**
 * Registers a user who repeatedly logs in, refreshes, and loses the session to a logout, an operator, a new password or
 * address, or with the account.
 */
export async function liveUser(load: Load): Promise<void> {
  const user = await register(load);
  if (!user) {
    await load.think(100);
    return;
  }
  load.judge('login', `${user.email} with another password`, NEVER, await load.ask(loginOf(user, 'of another')));
  for (let round = 0; round < ROUNDS && !load.isOver && !user.isDoubtful; round += 1) {
    const session = await logIn(load, user);
    if (session) await useAndEnd(load, user, session);
    else await load.think(100);
  }
}

/** @returns undefined when the request was not acknowledged */
async function register(load: Load): Promise<User | undefined> {
  const person = { email: `${randomUUID()}@example.org`, password: 'a passphrase of chaos' };
  const from = randomAddress();
  const answer = await load.ask({ path: '/api/v0/auth/register', body: person, from });
  if (!load.acknowledge('register', person.email, answer, 201)) return undefined;
  const { id } = registered.parse(answer.body);
  const user = { ...person, id, from, life: new Life(), isActive: true, isDoubtful: false };
  load.ledger.users.push(user);
  load.ledger.addSecrets(`user ${id}`, person.email, person.password);
  load.ledger.addActs({ 'user.registered': {} }, id);
  return user;
}

/** Registers a user before the fault. */
export function registerNow(load: Load): Promise<User> {
  return load.prepare('The registration', () => register(load));
}

/** Starts a session before the fault. */
export async function startSessionNow(load: Load): Promise<Session> {
  const user = await registerNow(load);
  return load.prepare('The login', () => logIn(load, user));
}

async function useAndEnd(load: Load, user: User, session: Session): Promise<void> {
  for (let step = 0; step < REFRESHES && !load.isOver && !session.isDoubtful; step += 1) {
    await me(load, session);
    await refresh(load, session);
    await load.think();
  }
  await meEverywhere(load, session);
  if (!load.isOver) await chooseEnding()(load, user, session);
}
