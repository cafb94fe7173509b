import { pickOne, randomAddress } from '../random.js';
import { Life, NEVER, type Credential, type Key } from '../ledger.js';
import type { Load } from '../load.js';
import { keyKinds, type KeyKind } from './key-kinds.js';
import { verifyKey, verifyKeyEverywhere } from './verifiers.js';

const OVERLAP_HOURS = 200;
/**
 * The first use of a node's new key does not wait for the verifiers, which may accept the old key for one more lease
 * (500 ms by default; docs/decisions/0044).
 */
const OVERLAP_LAG_MS = 600;

/** Issues a credential, uses it, rotates it with or without overlap, restricts it, revokes it, and checks each step on every replica. */
export async function liveKey(load: Load, kind: KeyKind): Promise<void> {
  const credential = await issue(load, kind);
  if (!credential) {
    await load.think(100);
    return;
  }
  const from = randomAddress();
  for (let use = 0; use < 3; use += 1) await validate(load, credential, { from });
  await validateEverywhere(load, credential);
  await validateForgery(load, credential, from);
  if (Math.random() < 0.7) await rotate(load, credential, from);
  if (Math.random() < 0.5) await restrict(load, credential);
  await revoke(load, credential);
}

/** @returns undefined when the request was not acknowledged */
export async function issue(load: Load, kind: KeyKind): Promise<Credential | undefined> {
  const body = kind.issue();
  const answer = await load.askAsAdmin('POST', kind.path, body);
  if (!load.acknowledge('admin', `issuing a ${kind.name}`, answer, 201)) return undefined;
  const { id, key } = kind.read(answer.body);
  const credential = { kind, id, key: addKey(load, kind, { id, key }), isRevoked: false, keyIsDoubtful: false };
  load.ledger.credentials.push(credential);
  load.ledger.addActs(kind.told.issued(body), id);
  return credential;
}

/** Issues a credential before the fault. */
export function issueNow(load: Load, kind: KeyKind): Promise<Credential> {
  return load.prepare(`Issuing a ${kind.name}`, () => issue(load, kind));
}

/** A node and an app credential, as {@link issueNow} makes them. */
export async function issueBothNow(load: Load): Promise<Credential[]> {
  return [await issueNow(load, keyKinds.node), await issueNow(load, keyKinds.app)];
}

interface Validation {
  /** By default the newest key. */
  readonly key?: Key;
  readonly from?: string;
  readonly base?: string;
}

/** @returns undefined without a verdict */
export async function validate(
  load: Load,
  { kind, id, key: newest }: Credential,
  { key = newest, from, base }: Validation = {},
): Promise<boolean | undefined> {
  const answer = await load.ask({ ...kind.request(id, key.text), from }, base);
  return load.judge(kind.validation, key.name, key.life, answer);
}

/** Asks every replica, and then every verifier. */
export async function validateEverywhere(load: Load, credential: Credential, key = credential.key): Promise<void> {
  const { kind, id } = credential;
  const answers = await load.askEverywhere({ ...kind.request(id, key.text), from: randomAddress() });
  for (const answer of answers) load.judge(kind.validation, key.name, key.life, answer);
  await verifyKeyEverywhere(load, credential, key);
}

/**
 * Rotates a key without overlap, and does not use its successor.
 * @returns the ended key; undefined when it may still be valid
 */
export async function rotateAtOnce(load: Load, credential: Credential): Promise<Key | undefined> {
  const { key: old } = credential;
  old.life.markEnding();
  if (!(await requestRotation(load, credential, 0))) return undefined;
  old.life.markEnded();
  return old;
}

function addKey(
  { ledger }: Load,
  kind: KeyKind,
  { id, key: text }: { readonly id: string; readonly key: string },
): Key {
  const name = `${kind.name} ${id} (…${text.slice(-4)})`;
  ledger.addSecrets(name, text);
  return { text, life: new Life(), name };
}

/** Takes the target or the scope of every request away, which the judge counts as a revocation. */
async function restrict(load: Load, credential: Credential): Promise<void> {
  const { kind, id, key } = credential;
  key.life.markEnding();
  const attempt = () => load.askAsAdmin('PATCH', `${kind.path}/${id}`, kind.restriction);
  const requestRestriction = () => load.insist('admin', `restricting ${key.name}`, attempt, 200);
  if (!(await load.ledger.perform(kind.told.restricted, id, requestRestriction))) return;
  key.life.markEnded();
  await validateEverywhere(load, credential);
}

async function revoke(load: Load, credential: Credential): Promise<void> {
  if (!(await revokeThrough(load, credential))) return;
  credential.isRevoked = true;
  load.ledger.revoked.push(credential);
  await validateEverywhere(load, credential);
}

async function validateForgery(load: Load, { kind, id, key }: Credential, from: string): Promise<void> {
  const forged = key.text.slice(0, -3) + (key.text.endsWith('AAA') ? 'BBB' : 'AAA');
  const answer = await load.ask({ ...kind.request(id, forged), from });
  load.judge(kind.validation, `a forgery of ${key.name}`, NEVER, answer);
}

async function rotate(load: Load, credential: Credential, from: string): Promise<void> {
  const { key: old } = credential;
  const overlap = Math.random() < 0.5 ? OVERLAP_HOURS : 0;
  if (overlap === 0) old.life.markEnding();
  if (!(await requestRotation(load, credential, overlap))) {
    // The rotation may still happen, so this credential can only be revoked.
    credential.keyIsDoubtful = true;
    return;
  }
  if (overlap === 0) old.life.markEnded();
  await validateEverywhere(load, credential, old);
  if (credential.kind.isShared && overlap > 0) return finishRotation(load, credential, old);
  old.life.markEnding();
  const refusedBefore = load.writesAreRefused;
  const verifier = load.verifiers.length > 0 && Math.random() < 0.5 ? pickOne(load.verifiers) : undefined;
  const wasUsed = verifier ? await verifyKey(load, verifier, credential) : await validate(load, credential, { from });
  if (wasUsed && !refusedBefore && !load.writesAreRefused) old.life.markEnded(OVERLAP_LAG_MS);
  await validateEverywhere(load, credential, old);
  await validateEverywhere(load, credential);
}

/** Needed because the first use of an app's new key ends nothing: replicas share the key. */
async function finishRotation(load: Load, credential: Credential, old: Key): Promise<void> {
  await validateEverywhere(load, credential);
  await validateEverywhere(load, credential, old);
  old.life.markEnding();
  const { kind, id } = credential;
  const attempt = () => load.askAsAdmin('POST', `${kind.path}/${id}/finish-rotation`);
  if (await load.insist('admin', `finishing the rotation of ${old.name}`, attempt, 204)) old.life.markEnded();
  await validateEverywhere(load, credential, old);
  await validateEverywhere(load, credential);
}

/** @returns whether it was acknowledged */
async function requestRotation(load: Load, credential: Credential, overlapHours: number): Promise<boolean> {
  const { kind, id, key } = credential;
  const answer = await load.askAsAdmin('POST', `${kind.path}/${id}/rotate`, { overlap_hours: overlapHours });
  if (!load.acknowledge('admin', `rotating ${key.name}`, answer, 200)) return false;
  credential.key = addKey(load, kind, { id, key: kind.read(answer.body).key });
  return true;
}

/**
 * Revokes a key, by default through any replica, again and again until it is acknowledged.
 * @returns false when the load ended before
 */
export async function revokeThrough(load: Load, { kind, id, key }: Credential, url?: string): Promise<boolean> {
  key.life.markEnding();
  const attempt = () => load.askAsAdmin('DELETE', `${kind.path}/${id}`, undefined, url);
  const requestRevocation = () => load.insist('admin', `revoking ${key.name}`, attempt, 204);
  const isRevoked = await load.ledger.perform(kind.told.revoked, id, requestRevocation);
  if (isRevoked) key.life.markEnded();
  return isRevoked;
}
