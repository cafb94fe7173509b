import type { Credential, Kept, Session } from '../ledger.js';
import type { Load } from '../load.js';
import { pickOne, randomAddress } from '../random.js';
import { keyKinds } from './key-kinds.js';
import { issueNow, validate } from './key-life.js';
import { logIn, me, refresh } from './sessions.js';
import { startSessionNow } from './user-life.js';

const KEPT = 3;

export async function makeKept(load: Load): Promise<Kept> {
  const credentials: Credential[] = [];
  const sessions: Session[] = [];
  for (let made = 0; made < KEPT; made += 1) {
    for (const kind of Object.values(keyKinds)) credentials.push(await issueNow(load, kind));
    sessions.push(await startSessionNow(load));
  }
  return { credentials, sessions };
}

export async function watchKeys(load: Load): Promise<void> {
  for (const credential of load.kept.credentials) await validate(load, credential, { from: randomAddress() });
}

export async function watchSessions(load: Load): Promise<void> {
  for (const session of load.kept.sessions) await me(load, session);
}

/** Logs in and refreshes without a pause, so that a gap between correct responses is the service's. */
export async function watchLogins(load: Load): Promise<void> {
  for (const { user } of load.kept.sessions) {
    const session = await logIn(load, user);
    if (session) await refresh(load, session);
  }
}

/** Revoked credentials stay refused, also on a promoted standby and on a replica that was paused. */
export async function watchRevoked(load: Load): Promise<void> {
  const { revoked } = load.ledger;
  if (revoked.length > 0) await validate(load, pickOne(revoked), { from: randomAddress() });
}
