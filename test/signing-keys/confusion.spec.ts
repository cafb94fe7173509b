import { createHmac, createPublicKey, sign, type JsonWebKey, type KeyObject } from 'node:crypto';
import { generateKeyPair } from '../../src/crypto/key-pair.js';
import { problems } from '../../src/problems/problems.js';
import { expectProblem } from '../support/expect-problem.js';
import { SECRET_KEY } from '../support/settings.js';
import { useApp } from '../support/use-app.js';
import { ES256, kidOf, readJwks } from './support.js';

const encode = (part: unknown): string => Buffer.from(JSON.stringify(part)).toString('base64url');

function signHs256(header: object, payload: string, key: string | Buffer): string {
  const input = `${encode(header)}.${payload}`;
  return `${input}.${createHmac('sha256', key).update(input).digest('base64url')}`;
}

function signEs256(header: object, payload: string, key: KeyObject): string {
  const input = `${encode(header)}.${payload}`;
  return `${input}.${sign('sha256', Buffer.from(input), { key, dsaEncoding: 'ieee-p1363' }).toString('base64url')}`;
}

describe('an access token under ES256', () => {
  const app = useApp({ variables: ES256 });
  const attacker = generateKeyPair().privateKey;
  let token: string;
  let jwk: JsonWebKey & { kid: string };
  const payload = (): string => token.split('.')[1]!;
  const header = () => ({ alg: 'ES256', typ: 'JWT', kid: jwk.kid });

  beforeAll(async () => {
    token = (await (await app.user()).logsIn()).access_token;
    jwk = (await readJwks(app)).keys.find(({ kid }) => kid === kidOf(token)) as unknown as typeof jwk;
  });

  const publicKey = (format: 'pem' | 'der'): string | Buffer =>
    createPublicKey({ key: jwk, format: 'jwk' }).export({ format: format as 'pem', type: 'spki' });

  it.each<[string, () => string]>([
    ['HS256 with the public key in PEM', () => signHs256({ alg: 'HS256', typ: 'JWT' }, payload(), publicKey('pem'))],
    ['HS256 with the public key in DER', () => signHs256({ alg: 'HS256', typ: 'JWT' }, payload(), publicKey('der'))],
    ['HS256 with the JWK', () => signHs256({ alg: 'HS256', typ: 'JWT' }, payload(), JSON.stringify(jwk))],
    ['HS256 with a kid', () => signHs256({ ...header(), alg: 'HS256' }, payload(), publicKey('pem'))],
    ['ES256 in the header and an HMAC', () => signHs256(header(), payload(), publicKey('pem'))],
    ['no algorithm', () => `${encode({ alg: 'none', typ: 'JWT' })}.${payload()}.`],
    ['no algorithm and a kid', () => `${encode({ ...header(), alg: 'none' })}.${payload()}.`],
    ['no signature', () => token.replace(/[^.]+$/, '')],
    ['a kid that does not exist', () => signEs256({ ...header(), kid: 'A'.repeat(43) }, payload(), attacker)],
    ['a kid of this service, and a foreign key', () => signEs256(header(), payload(), attacker)],
    ['no kid', () => signEs256({ alg: 'ES256', typ: 'JWT' }, payload(), attacker)],
    ['a kid that is a path', () => signEs256({ ...header(), kid: '../../dev/null' }, payload(), attacker)],
    [
      'a jwk in the header',
      () => signEs256({ ...header(), jwk: attacker.export({ format: 'jwk' }) }, payload(), attacker),
    ],
    [
      'the members of the header in another order',
      () => `${encode({ typ: 'JWT', alg: 'ES256', kid: jwk.kid })}.${token.split('.').slice(1).join('.')}`,
    ],
  ])('is refused with %s', async (_name, forge) => {
    expectProblem(await app.me(forge()), problems.invalidAccessToken);
  });

  it('is refused with HS256 and SECRET_KEY where no session ever began under HS256', async () => {
    expectProblem(
      await app.me(signHs256({ alg: 'HS256', typ: 'JWT' }, payload(), SECRET_KEY)),
      problems.invalidAccessToken,
    );
  });

  it('is accepted as it was signed', async () => {
    await app.me(token).expect(200);
  });
});
