import { eventually } from '../../tools/eventually.js';
import { Load, type Actor, type LoadOptions, type LoadSetting } from '../load.js';
import type { VerifierProcess } from '../verifiers/verifier-process.js';
import { keyKinds } from './key-kinds.js';
import { liveKey, issueNow, validate } from './key-life.js';
import { joinHousehold, judgeMembership, liveMember } from './member-life.js';
import { liveUser, startSessionNow } from './user-life.js';
import { verifyKey, watchVerifier } from './verifiers.js';
import type { Credential, Kept, Membership, Session } from '../ledger.js';
import { pickOne, randomAddress } from '../random.js';
import { logIn, me, refresh } from './sessions.js';

const ACTORS: readonly Actor[] = [
  ...Array.from({ length: 3 }, () => (load: Load) => liveKey(load, keyKinds.node)),
  ...Array.from({ length: 3 }, () => (load: Load) => liveKey(load, keyKinds.app)),
  ...Array.from({ length: 6 }, () => liveUser),
  liveMember,
  ...[watchKeys, watchKeys, watchSessions, watchSessions, watchLogins, watchLogins],
  watchRevoked,
];

/** Makes the credentials that no actor ends, waits for the verifiers, and starts all actors. */
export async function startLoad(setting: LoadSetting, options: LoadOptions): Promise<Load> {
  const load = new Load(setting, options);
  load.kept = await makeKept(load);
  await Promise.all(load.verifiers.map((verifier) => awaitStart(load, verifier)));
  load.begin([...ACTORS, ...load.verifiers.map(watchVerifier)]);
  return load;
}

/** Resolves when a verifier has started. */
async function awaitStart(load: Load, verifier: VerifierProcess): Promise<void> {
  const { credentials } = load.kept;
  const accepts = async (): Promise<boolean> =>
    (await Promise.all(credentials.map((one) => verifyKey(load, verifier, one)))).every((verdict) => verdict === true);
  await eventually(`the ${verifier.name} verifier accepts a key`, accepts);
}

const KEPT = 3;

async function makeKept(load: Load): Promise<Kept> {
  const credentials: Credential[] = [];
  const sessions: Session[] = [];
  const memberships: Membership[] = [];
  for (let made = 0; made < KEPT; made += 1) {
    for (const kind of Object.values(keyKinds)) credentials.push(await issueNow(load, kind));
    const session = await startSessionNow(load);
    sessions.push(session);
    memberships.push(await load.prepare('Joining a household', () => joinHousehold(load, session)));
  }
  return { credentials, sessions, memberships };
}

async function watchKeys(load: Load): Promise<void> {
  for (const credential of load.kept.credentials) await validate(load, credential, { from: randomAddress() });
}

async function watchSessions(load: Load): Promise<void> {
  for (const session of load.kept.sessions) await me(load, session);
  for (const membership of load.kept.memberships) await judgeMembership(load, membership);
}

/** Logs in and refreshes without a pause, so that a gap between correct responses is caused by the service. */
async function watchLogins(load: Load): Promise<void> {
  for (const { user } of load.kept.sessions) {
    const session = await logIn(load, user);
    if (session) await refresh(load, session);
  }
}

/** Checks that revoked credentials stay refused, even by a promoted standby and a replica that was paused. */
async function watchRevoked(load: Load): Promise<void> {
  const { revoked } = load.ledger;
  if (revoked.length > 0) await validate(load, pickOne(revoked), { from: randomAddress() });
}
