import { someAddress } from '../addresses.js';
import { Life, NEVER } from '../ledger.js';

const OVERLAP_HOURS = 200;

/** Mints a credential, uses it, rotates it with or without overlap, revokes it, and checks each step on every replica. */
export async function keyLife(load, kind) {
  const credential = await mint(load, kind);
  if (!credential) return load.think(100);
  const from = someAddress();
  for (let use = 0; use < 3; use += 1) await validate(load, credential, credential.key, from);
  await validateEverywhere(load, credential, credential.key);
  await validateForgery(load, credential, from);
  if (Math.random() < 0.7) await rotate(load, credential, from);
  await revoke(load, credential);
}

/** @returns undefined when the request was not acknowledged */
export async function mint(load, kind) {
  const answer = await load.admin('POST', kind.path, kind.mint());
  if (!load.done('admin', `minting a ${kind.name}`, answer, 201)) return undefined;
  const { body } = answer;
  const credential = { kind, id: kind.idOf(body), isRevoked: false, keyIsDoubtful: false };
  credential.key = newKey(credential, kind.keyOf(body));
  load.ledger.credentials.push(credential);
  return credential;
}

export async function validate(load, { kind, id }, key, from, base) {
  const answer = await load.ask({ ...kind.request(id, key.text), from }, base);
  return load.judge(kind.validation, key.name, key.life, answer);
}

export async function validateEverywhere(load, { kind, id }, key) {
  const answers = await load.everywhere({ ...kind.request(id, key.text), from: someAddress() });
  for (const answer of answers) load.judge(kind.validation, key.name, key.life, answer);
}

export async function revoke(load, credential) {
  const { kind, id, key } = credential;
  key.life.ending();
  const attempt = () => load.admin('DELETE', `${kind.path}/${id}`);
  if (!(await load.insist('admin', `revoking ${key.name}`, attempt, 204))) return;
  key.life.ended();
  credential.isRevoked = true;
  load.ledger.revoked.push(credential);
  await validateEverywhere(load, credential, key);
}

export function newKey(credential, text) {
  return { text, life: new Life(), name: `${credential.kind.name} ${credential.id} (…${text.slice(-4)})` };
}

async function validateForgery(load, { kind, id, key }, from) {
  const forged = key.text.slice(0, -3) + (key.text.endsWith('AAA') ? 'BBB' : 'AAA');
  const answer = await load.ask({ ...kind.request(id, forged), from });
  load.judge(kind.validation, `a forgery of ${key.name}`, NEVER, answer);
}

async function rotate(load, credential, from) {
  const { kind, id, key: old } = credential;
  const overlap = Math.random() < 0.5 ? OVERLAP_HOURS : 0;
  if (overlap === 0) old.life.ending();
  const answer = await load.admin('POST', `${kind.path}/${id}/rotate`, { overlap_hours: overlap });
  // A rotation without a response may still be done later: such a credential can only be revoked.
  if (!load.done('admin', `rotating ${old.name}`, answer, 200)) return void (credential.keyIsDoubtful = true);
  if (overlap === 0) old.life.ended();
  credential.key = newKey(credential, kind.keyOf(answer.body));
  await validateEverywhere(load, credential, old);
  old.life.ending();
  const refusedBefore = load.writesAreRefused;
  const wasUsed = await validate(load, credential, credential.key, from);
  if (wasUsed && !refusedBefore && !load.writesAreRefused) old.life.ended();
  await validateEverywhere(load, credential, old);
  await validateEverywhere(load, credential, credential.key);
}
