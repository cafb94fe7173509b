// What a verifier costs, without a server or a load generator, in a process that takes orders over IPC (work-
// messages.ts).
import { createPrivateKey, sign, timingSafeEqual } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { exportJWK, exportPKCS8, generateKeyPair, importJWK, jwtVerify, SignJWT } from 'jose';
import { UnavailableError } from '../clients/typescript/src/errors.js';
import { toSettings } from '../clients/typescript/src/options.js';
import type { PresentedRequest } from '../clients/typescript/src/presented-request.js';
import { createSystemRuntime } from '../clients/typescript/src/runtime.js';
import { VerifierCore } from '../clients/typescript/src/verifier-core.js';
import { computeDigest } from '../src/foundation/crypto/secret.js';
import { measureCpuSince, repeatConcurrently } from './loops.js';
import type { Load } from './measure.js';
import type { OwnKey, WorkTask } from './work-messages.js';

/** The loop yields after this many, so that the verifier can poll. */
const BATCH = 200;
/** About the length of a delegated token without its signature. */
const CLAIMS_BYTES = 700;

/** Verifies the keys of nodes, one after the other. After the first question each is remembered. */
export async function verifyRememberedKeys({ own, nodes }: WorkTask<'rememberedKey'>): Promise<Load> {
  const verifier = createVerifier(own);
  const requests = nodes.map((key) => toRequest('X-API-Key', key));
  return repeatBatches(requests, (request) => verifier.verifyNode(request));
}

export async function verifyRememberedTokens({ own, tokens }: WorkTask<'rememberedToken'>): Promise<Load> {
  const verifier = createVerifier(own);
  const requests = tokens.map((token) => toRequest('Authorization', `Bearer ${token}`));
  return repeatBatches(requests, (request) => verifier.verifyUser(request));
}

/** Verifies as many keys at once as there are nodes, against a service without a lease, which is asked each time. */
export function verifyAskingEachTime({ own, nodes }: WorkTask<'askingKey'>): Load {
  const verifier = createVerifier(own);
  const requests = nodes.map((key) => toRequest('X-API-Key', key));
  return repeatConcurrently(requests, (request) => orUnavailable(verifier.verifyNode(request)));
}

/** The least work for a key: SHA-256, a look-up in a map, and a constant-time comparison. */
export function verifyBareKeys({ nodes }: WorkTask<'bareKey'>): Promise<Load> {
  const pairs = nodes.map((key) => key.split(':') as [string, string]);
  const digests = new Map(pairs.map(([id, key]) => [id, computeDigest(key)]));
  return repeatBatches(pairs, ([id, key]) => {
    const digest = digests.get(id);
    if (!digest || !timingSafeEqual(digest, computeDigest(key))) throw new Error('the key is not known');
  });
}

/** The least work for a token: the verification of a JWT library, with its keys cached. */
export async function verifySignatures({ tokens }: WorkTask<'es256'>): Promise<Load> {
  const { privateKey, publicKey } = await generateKeyPair('ES256', { extractable: true });
  const key = await importJWK(await exportJWK(publicKey), 'ES256');
  const signToken = (sub: string): Promise<string> => {
    const claims = new SignJWT({ sub, sid: sub, email: `${sub}@example.org` });
    return claims
      .setProtectedHeader({ alg: 'ES256' })
      .setIssuer('platform-auth')
      .setIssuedAt()
      .setExpirationTime('1h')
      .sign(privateKey);
  };
  const signed = await Promise.all(tokens.map((_token, index) => signToken(`user-${index}`)));
  const options = { algorithms: ['ES256'], issuer: 'platform-auth' };
  return repeatBatches(signed, (token) => jwtVerify(token, key, options), 1);
}

/** The signature of an exchange, by the service's own means. */
export async function signClaims(): Promise<Load> {
  const { privateKey: generated } = await generateKeyPair('ES256', { extractable: true });
  const privateKey = createPrivateKey({ key: await exportPKCS8(generated), format: 'pem' });
  const claims = Buffer.alloc(CLAIMS_BYTES, 'a');
  return repeatBatches([claims], (text) => void sign('sha256', text, { key: privateKey, dsaEncoding: 'ieee-p1363' }));
}

function createVerifier({ url, appId, appKey, serviceName, secretKey }: OwnKey): VerifierCore {
  return new VerifierCore(toSettings({ url, appId, appKey, serviceName, secretKey }), createSystemRuntime());
}

/** The headers of a request behind a proxy, as Node.js presents them. */
export function toRequest(name: string, value: string): PresentedRequest {
  const pairs = [
    ['Host', 'recipes.example.org'],
    ['User-Agent', 'recipes-app/4.2.0'],
    ['Accept', 'application/json'],
    ['Accept-Encoding', 'gzip'],
    ['X-Forwarded-For', '192.0.2.1'],
    [name, value],
  ] as const;
  return {
    headers: Object.fromEntries(pairs.map(([header, text]) => [header.toLowerCase(), text])),
    rawHeaders: pairs.flat(),
  };
}

/** Goes through all items once, so that they are remembered; then repeats them for the ordered time. */
async function repeatBatches<Item>(
  items: readonly Item[],
  once: (item: Item) => unknown,
  batch = BATCH,
): Promise<Load> {
  for (const item of items) await orUnavailable(Promise.resolve(once(item)));
  return async (seconds) => {
    const startedAt = performance.now();
    const before = process.cpuUsage();
    let count = 0;
    while (performance.now() - startedAt < seconds * 1_000) {
      await nextTurn();
      for (const last = count + batch; count < last; count += 1) {
        // Awaited only when it is a promise, because the bare work is synchronous.
        const work = once(items[count % items.length] as Item);
        if (work instanceof Promise) await orUnavailable(work);
      }
    }
    return { throughput: (1_000 * count) / (performance.now() - startedAt), cpu: measureCpuSince(before) / count };
  };
}

/** Accepts a timeout of a question, which a busy machine may cause. */
async function orUnavailable(work: Promise<unknown>): Promise<boolean> {
  try {
    await work;
    return true;
  } catch (error) {
    if (error instanceof UnavailableError) return false;
    throw error;
  }
}
