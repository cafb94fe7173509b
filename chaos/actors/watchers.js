import { randomInt } from 'node:crypto';
import { someAddress } from '../addresses.js';
import { mint, validate } from './key-life.js';
import { kinds } from './key-kinds.js';
import { logIn, me, refresh } from './sessions.js';
import { register } from './user-life.js';

const KEPT = 3;

/** Credentials that no actor ends: any refusal of them is a wrong verdict. Made before the fault. */
export async function makeKept(load) {
  const kept = { credentials: [], sessions: [] };
  for (let made = 0; made < KEPT; made += 1) {
    for (const kind of Object.values(kinds)) kept.credentials.push(await mint(load, kind));
    kept.sessions.push(await logIn(load, await register(load)));
  }
  load.kept = kept;
}

export async function watchKeys(load) {
  for (const credential of load.kept.credentials) await validate(load, credential, credential.key, someAddress());
}

export async function watchSessions(load) {
  for (const session of load.kept.sessions) await me(load, session);
}

/** Logs in and refreshes without a pause, so that a gap between correct responses is the service's. */
export async function watchLogins(load) {
  for (const { user } of load.kept.sessions) {
    const session = await logIn(load, user);
    if (session) await refresh(load, session);
  }
}

/** Revoked credentials stay refused, also on a promoted standby and on a replica that was paused. */
export async function watchRevoked(load) {
  const { revoked } = load.ledger;
  if (revoked.length === 0) return;
  const credential = revoked[randomInt(revoked.length)];
  await validate(load, credential, credential.key, someAddress());
}
