import { LEASE_MS } from './histories.js';
import type { Right } from './household.js';

/** Within the shortest history. */
const EXPIRES_AT_MS = 2_500;
const MAX_DRIFT = 1.02;

export interface Credential extends Right {
  readonly kind: 'node' | 'session';
  readonly headers: Readonly<Record<string, string>>;
  readonly body: object;
}

export const USER = 'user-1';
export const encode = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');

export function createCredentials(): Credential[] {
  const nodes = ['node-1', 'node-2'].map(createNode);
  const sessions = [1, 2].map((n) => ({
    kind: 'session' as const,
    id: `session-${n}`,
    headers: { authorization: `Bearer ${encode({ alg: 'HS256' })}.${encode({ sub: USER, sid: `session-${n}` })}.x` },
    body: { valid: true, user_id: USER, session_id: `session-${n}`, email: 'a@example.org' },
  }));
  const ofForever = [...nodes, ...sessions].map((credential) => ({ ...credential, expiresAtMs: Infinity }));
  const expiring = { ...createNode('node-3'), expiresAtMs: EXPIRES_AT_MS };
  return [...ofForever, expiring].map((credential) => ({
    ...credential,
    hasEnded: false,
    ...createEnd(credential.expiresAtMs),
  }));
}

/** A yes may be used for a lease after its question was sent, also when the key expires meanwhile. */
export function createEnd(expiresAtMs = EXPIRES_AT_MS) {
  return { expiresAtMs, deadSince: expiresAtMs * MAX_DRIFT + LEASE_MS };
}

function createNode(id: string) {
  return {
    kind: 'node' as const,
    id,
    headers: { 'x-api-key': `${id}:key` },
    body: { valid: true, node_id: id, household_id: 'home' },
  };
}
