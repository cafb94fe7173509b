import type { Answer } from '../client.js';
import { bearerOf, type Credential, type Key, type Life, type Membership, type Session } from '../ledger.js';
import type { Load } from '../load.js';
import { pickOne } from '../random.js';
import type { VerifierProcess } from '../verifiers/verifier-process.js';

/** @returns undefined without a verdict */
export async function verifyKey(
  load: Load,
  verifier: VerifierProcess,
  { kind, id, key: newest }: Credential,
  key: Key = newest,
): Promise<boolean | undefined> {
  const answer = await verifier.verify(kind.door, kind.request(id, key.text).headers ?? {});
  return load.judgeVerifier(verifier, kind.door, key, answer);
}

/**
 * Presents the newest access token of a session.
 * @returns undefined without a verdict
 */
async function verifySession(load: Load, verifier: VerifierProcess, session: Session): Promise<boolean | undefined> {
  const answer = await verifier.verify('user', bearerOf(session));
  return load.judgeVerifier(verifier, 'user', nameOf(session), answer);
}

/** Presents the token at a route for members, and at one for admins. */
export async function verifyMembership(load: Load, verifier: VerifierProcess, membership: Membership): Promise<void> {
  const { household, session, asMember, asAdmin } = membership;
  const verify = async (what: string, life: Life, role?: 'admin'): Promise<void> => {
    const answer = await verifier.verify('user', bearerOf(session), { household, ...(role && { role }) });
    // Who is no member.
    const verdict = answer.status === 404 ? ({ ...answer, status: 403 } as const) : answer;
    load.judgeVerifier(verifier, 'user', { name: `${what} of household ${household}`, life }, verdict);
  };
  await Promise.all([verify('a member', asMember), verify('an admin', asAdmin, 'admin')]);
}

/** Asks every verifier about a key at the same time. */
export async function verifyKeyEverywhere(load: Load, credential: Credential, key?: Key): Promise<void> {
  await Promise.all(load.verifiers.map((verifier) => verifyKey(load, verifier, credential, key)));
}

export async function verifySessionEverywhere(load: Load, session: Session): Promise<void> {
  await Promise.all(load.verifiers.map((verifier) => verifySession(load, verifier, session)));
}

/** Presents valid and ended credentials to one verifier, again and again. */
export function watchVerifier(verifier: VerifierProcess): (load: Load) => Promise<void> {
  return async (load) => {
    const { credentials, sessions, memberships } = load.kept;
    for (const credential of credentials) await verifyKey(load, verifier, credential);
    for (const session of sessions) await verifySession(load, verifier, session);
    await Promise.all(memberships.map((membership) => verifyMembership(load, verifier, membership)));
    const { revoked } = load.ledger;
    if (revoked.length > 0) await verifyKey(load, verifier, pickOne(revoked));
  };
}

/** Judges a token by a life of its own, such as a token whose signing key was revoked. */
export async function verifyToken(load: Load, verifier: VerifierProcess, token: string, key: Key): Promise<Answer> {
  const answer = await verifier.verify('user', { Authorization: `Bearer ${token}` });
  load.judgeVerifier(verifier, 'user', key, answer);
  return answer;
}

function nameOf({ id, life }: Session): Pick<Key, 'name' | 'life'> {
  return { name: `session ${id}`, life };
}
