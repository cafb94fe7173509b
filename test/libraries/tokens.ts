import { createHmac, randomUUID } from 'node:crypto';
import { exportJWK, exportSPKI, generateKeyPair, SignJWT, UnsecuredJWT, type JWK, type JWTPayload } from 'jose';

const LIFE_SECONDS = 600;
const KID = 'test-es256';
/** The name of the services in this test. */
export const DELEGATED_TARGET = 'ocr';
const LONG_KID = 'test-es384';

interface TestKeys {
  /** What the JWKS shows. */
  readonly shown: readonly JWK[];
  readonly makeTokens: (issuer: string) => Promise<TestTokens>;
}

export interface TestTokens {
  readonly good: string;
  readonly wrong: readonly WrongToken[];
  readonly delegated: DelegatedTokens;
}

/** What another service gets on behalf of a user (RFC 8693). */
interface DelegatedTokens {
  readonly good: string;
  readonly withoutScope: string;
  readonly wrong: readonly WrongToken[];
}

interface WrongToken {
  readonly name: string;
  readonly token: string;
  /** A claim of each access token is missing. */
  readonly lacksClaim?: true;
}

/** Keys that the libraries trust beside those of the service, so that each wrong token has one fault. */
export async function makeTestKeys(): Promise<TestKeys> {
  const trusted = await generateKeyPair('ES256', { extractable: true });
  const longer = await generateKeyPair('ES384');
  const stranger = await generateKeyPair('ES256');
  const shown = [
    { ...(await exportJWK(trusted.publicKey)), alg: 'ES256', use: 'sig', kid: KID },
    { ...(await exportJWK(longer.publicKey)), alg: 'ES384', use: 'sig', kid: LONG_KID },
  ];
  const makeTokens = async (issuer: string): Promise<TestTokens> => {
    const now = Math.floor(Date.now() / 1_000);
    const withoutEnd = { iss: issuer, sub: randomUUID(), sid: randomUUID(), iat: now };
    const claims = { ...withoutEnd, exp: now + LIFE_SECONDS };
    const sign = (
      payload: JWTPayload,
      key = trusted.privateKey,
      alg = 'ES256',
      kid = KID,
      typ = 'JWT',
    ): Promise<string> => new SignJWT(payload).setProtectedHeader({ alg, kid, typ }).sign(key);
    const pair = randomUUID();
    const chain = { client_id: pair, act: { sub: 'meals', client_id: pair }, scope: 'documents:read' };
    const forThis = { ...claims, iss: `${issuer}/delegated`, aud: DELEGATED_TARGET, ...chain };
    const signDelegated = (payload: JWTPayload, key = trusted.privateKey): Promise<string> =>
      sign(payload, key, 'ES256', KID, 'at+jwt');
    const delegated = {
      good: await signDelegated(forThis),
      withoutScope: await signDelegated({ ...forThis, scope: 'documents:write' }),
      wrong: [
        { name: 'of the user alone', token: await sign(claims) },
        { name: 'for another service', token: await signDelegated({ ...forThis, aud: 'mail' }) },
        { name: 'by the issuer of own tokens', token: await signDelegated({ ...forThis, iss: issuer }) },
        { name: 'of the type of own tokens', token: await sign(forThis) },
        { name: 'without a caller', token: await signDelegated({ ...forThis, act: undefined }) },
        { name: 'signed by another key', token: await signDelegated(forThis, stranger.privateKey) },
        { name: 'that has expired', token: await signDelegated({ ...forThis, iat: now - 7_200, exp: now - 3_600 }) },
      ],
    };
    const wrong: WrongToken[] = [
      { name: 'expired', token: await sign({ ...claims, iat: now - 7_200, exp: now - 3_600 }) },
      { name: 'of another issuer', token: await sign({ ...claims, iss: 'https://other.example.org' }) },
      {
        name: 'of HS256 with the public key as its secret',
        token: signHs256(claims, await exportSPKI(trusted.publicKey)),
      },
      { name: 'of ES384 with a key of the JWKS', token: await sign(claims, longer.privateKey, 'ES384', LONG_KID) },
      { name: 'without a signature', token: new UnsecuredJWT(claims).encode() },
      { name: 'signed by another key of the same kid', token: await sign(claims, stranger.privateKey) },
      { name: 'of a kid that is not in the JWKS', token: await sign(claims, stranger.privateKey, 'ES256', 'unknown') },
      { name: 'that another service got on behalf of a user', token: delegated.good },
      { name: 'that is not a JWT', token: 'abc' },
      { name: 'without exp', token: await sign(withoutEnd), lacksClaim: true },
      { name: 'without sid', token: await sign({ ...claims, sid: undefined }), lacksClaim: true },
    ];
    return { good: await sign(claims), wrong, delegated };
  };
  return { shown, makeTokens };
}

function signHs256(claims: JWTPayload, secret: string): string {
  const encode = (part: object): string => Buffer.from(JSON.stringify(part)).toString('base64url');
  const signed = `${encode({ alg: 'HS256', kid: KID, typ: 'JWT' })}.${encode(claims)}`;
  return `${signed}.${createHmac('sha256', secret).update(signed).digest('base64url')}`;
}
