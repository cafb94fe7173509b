import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { tokenPair } from '../../tools/api-client.js';
import { mayStillHappen, type Answer } from '../client.js';
import { bearerOf, Life, type Session, type User } from '../ledger.js';
import type { Load, LoadRequest } from '../load.js';
import { verifySessionEverywhere } from './verifiers.js';

const RETRY_INTERVAL_MS = 100;
const claims = z.object({ sid: z.string() });

interface Tokens {
  readonly accessToken: string;
  readonly refreshToken: string;
}

export function loginOf({ email, password, from }: User, presented = password): LoadRequest {
  return { path: '/api/v0/auth/login', body: { email, password: presented }, from };
}

export function refreshOf({ refreshToken, user }: Session): LoadRequest {
  return { path: '/api/v0/auth/refresh', body: { refresh_token: refreshToken }, from: user.from };
}

/** @returns undefined when the login did not succeed */
export async function logIn(load: Load, user: User): Promise<Session | undefined> {
  const answer = await load.ask(loginOf(user));
  if (!load.judge('login', user.email, user.life, answer)) return undefined;
  const tokens = readTokens(answer);
  const id = readSessionId(tokens.accessToken);
  const session = { id, user, ...tokens, generation: 0, life: new Life(), isDoubtful: false };
  load.ledger.sessions.push(session);
  load.ledger.addSecrets(`session ${id}`, tokens.accessToken, tokens.refreshToken);
  return session;
}

export async function me(load: Load, session: Session): Promise<void> {
  judgeMe(load, session, [await load.ask(meOf(session))]);
}

/** Asks every replica, and then every verifier. */
export async function meEverywhere(load: Load, session: Session): Promise<void> {
  judgeMe(load, session, await load.askEverywhere(meOf(session)));
  await verifySessionEverywhere(load, session);
}

/** @returns undefined without a verdict */
export function judgeRefresh(load: Load, { id, life }: Session, answer: Answer): boolean | undefined {
  return load.judge('refresh', `session ${id}`, life, answer);
}

/**
 * Reads the response to a login or a refresh.
 * @throws when the response does not have its form
 */
export function readTokens({ body }: Answer): Tokens {
  const { access_token: accessToken, refresh_token: refreshToken } = tokenPair.parse(body);
  return { accessToken, refreshToken };
}

/**
 * Rotates once, sometimes on every replica at the same time, and retries until there is a response. Within the grace
 * this is idempotent: every response carries the same successor.
 */
export async function refresh(load: Load, session: Session): Promise<void> {
  const request = refreshOf(session);
  const isRepeated = load.repeatsRefreshes && Math.random() < 0.3;
  const answers = isRepeated ? await load.askEverywhere(request) : [await load.ask(request)];
  let successor = judgeRefreshes(load, session, answers);
  while (successor === undefined && !load.isOver && !session.isDoubtful) {
    await sleep(RETRY_INTERVAL_MS);
    const answer = await load.ask(request);
    answers.push(answer);
    successor = judgeRefreshes(load, session, [answer]);
  }
  if (successor === undefined) return;
  // An attempt that arrives after the first use of the successor counts as reuse, so this session is not refreshed
  // again.
  if (answers.some(mayStillHappen)) session.isDoubtful = true;
  else Object.assign(session, successor, { generation: session.generation + 1 });
  load.ledger.addSecrets(`session ${session.id}`, successor.accessToken, successor.refreshToken);
}

export function meOf(session: Session): LoadRequest {
  return { method: 'GET', path: '/api/v0/users/me', headers: bearerOf(session), from: session.user.from };
}

function judgeMe(load: Load, { id, life }: Session, answers: readonly Answer[]): void {
  for (const answer of answers) load.judge('users/me', `session ${id}`, life, answer);
}

/** @returns undefined when no response carries tokens */
function judgeRefreshes(load: Load, session: Session, answers: readonly Answer[]): Tokens | undefined {
  let successor: Tokens | undefined;
  for (const answer of answers) {
    const wasAccepted = judgeRefresh(load, session, answer);
    // A refused session cannot be judged any more: the refusal is wrong, or ends a session that was in doubt.
    if (wasAccepted === false) session.isDoubtful = true;
    if (!wasAccepted) continue;
    const tokens = readTokens(answer);
    if (successor && successor.refreshToken !== tokens.refreshToken) {
      load.record.addWrongVerdict(`refresh of session ${session.id}: two successors of one token`);
    }
    successor = tokens;
  }
  return successor;
}

function readSessionId(accessToken: string): string {
  const [, payload = ''] = accessToken.split('.');
  return claims.parse(JSON.parse(Buffer.from(payload, 'base64url').toString())).sid;
}
