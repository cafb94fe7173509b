import { writeFileSync } from 'node:fs';
import { createHmac, createPublicKey, type JsonWebKey, sign } from 'node:crypto';
import { problems } from '../../../src/foundation/problems/problems.js';
import { useCli } from '../../support/cli.js';
import { expectProblem } from '../../support/expect-problem.js';
import { useApp } from '../../support/use-app.js';
import { ES256, kidOf, listKids, readJwks } from './support.js';
import { generateKeyPair } from '../../../src/foundation/crypto/key-pair.js';
import { SECRET_KEY } from '../../support/settings.js';
import { SHORT_WAITS, withPatientReplica } from '../../support/outage.js';
import { untilVerdict } from '../../support/until-verdict.js';

interface Report {
  readonly keys: { readonly kid: string; readonly state: string }[];
}

describe('platform-auth keys, of a service that signs with HS256', () => {
  const app = useApp();
  const cli = useCli(app);

  it('says that there are none, because SECRET_KEY signs, as the JWKS does', async () => {
    const list = await cli.with({ DATABASE_URL: app.database.url }).ok('keys', 'list');
    expect(list).toMatch(/^There are no signing keys\. Under HS256 .* signs with SECRET_KEY/);
    expect(await readJwks(app)).toEqual({ keys: [] });
  });

  it('reads DATABASE_URL from the file that DATABASE_URL_FILE names', async () => {
    const file = cli.path('database-url');
    writeFileSync(file, app.database.url, { mode: 0o600 });
    expect(await cli.with({ DATABASE_URL_FILE: file }).json('keys', 'list')).toEqual({ keys: [] });
  });
});

describe('platform-auth keys', () => {
  const app = useApp({ variables: ES256 });
  const cli = useCli(app);
  const operate = () => cli.with({ DATABASE_URL: app.database.url });

  it('lists the keys without their secrets', async () => {
    const { keys } = await operate().json<Report>('keys', 'list');
    expect(keys.map(({ kid }) => kid).sort()).toEqual((await listKids(app)).sort());
    expect(keys.map(({ state }) => state).sort()).toEqual(['active', 'next']);
    expect(await operate().ok('keys', 'list')).not.toMatch(/private|encrypted/);
  });

  it('refuses to rotate to a key that caches of the JWKS may not have yet, and changes nothing', async () => {
    const before = await operate().json<Report>('keys', 'list');
    expect(await operate().fails('keys', 'rotate')).toMatch(/^The next key may sign from .*: until then/);
    expect(await operate().json<Report>('keys', 'list')).toEqual(before);
  });

  it('revokes a stolen key, and needs no SECRET_KEY to do it', async () => {
    const { access_token } = await (await app.user()).logsIn();
    const kid = kidOf(access_token)!;
    const { keys } = await operate().json<Report>('keys', 'revoke', kid, '--yes');
    expectProblem(await app.me(access_token), problems.invalidAccessToken);
    expect(keys.find((key) => key.kid === kid)).toMatchObject({ state: 'revoked' });
    expect(await operate().json<Report>('keys', 'revoke', kid, '--yes')).toEqual({ keys });
  });

  it('reports a kid that does not exist', async () => {
    expect(await operate().fails('keys', 'revoke', 'nonsense', '--yes')).toMatch(/^No signing key has this kid/);
    expect(await operate().fails('keys', 'retire', 'nonsense')).toMatch(/^No signing key has this kid/);
  });
});

const encode = (part: unknown): string => Buffer.from(JSON.stringify(part)).toString('base64url');

describe('an access token under ES256', () => {
  const app = useApp({ variables: ES256 });
  const attacker = generateKeyPair().privateKey;
  let token: string;
  let jwk: JsonWebKey & { kid: string };
  /** The header in place of the token's, before its claims. */
  const withHeader = (header: object): string => `${encode(header)}.${token.split('.')[1]}`;
  const signHs256 = (header: object, key: string | Buffer): string => {
    const input = withHeader({ alg: 'HS256', typ: 'JWT', ...header });
    return `${input}.${createHmac('sha256', key).update(input).digest('base64url')}`;
  };
  const signEs256 = (header: object): string => {
    const input = withHeader({ alg: 'ES256', typ: 'JWT', ...header });
    const key = { key: attacker, dsaEncoding: 'ieee-p1363' } as const;
    return `${input}.${sign('sha256', Buffer.from(input), key).toString('base64url')}`;
  };

  beforeAll(async () => {
    token = (await (await app.user()).logsIn()).access_token;
    jwk = (await readJwks(app)).keys.find(({ kid }) => kid === kidOf(token)) as unknown as typeof jwk;
  });

  const publicKey = (format: 'pem' | 'der'): string | Buffer =>
    createPublicKey({ key: jwk, format: 'jwk' }).export({ format: format as 'pem', type: 'spki' });

  it.each<[string, () => string]>([
    ['HS256 with the public key in PEM', () => signHs256({}, publicKey('pem'))],
    ['HS256 with the public key in DER', () => signHs256({}, publicKey('der'))],
    ['HS256 with the JWK', () => signHs256({}, JSON.stringify(jwk))],
    ['HS256 with a kid', () => signHs256({ kid: jwk.kid }, publicKey('pem'))],
    ['HS256 and SECRET_KEY where no session ever began under HS256', () => signHs256({}, SECRET_KEY)],
    ['ES256 in the header and an HMAC', () => signHs256({ alg: 'ES256', kid: jwk.kid }, publicKey('pem'))],
    ['no algorithm', () => `${withHeader({ alg: 'none', typ: 'JWT' })}.`],
    ['no algorithm and a kid', () => `${withHeader({ alg: 'none', typ: 'JWT', kid: jwk.kid })}.`],
    ['no signature', () => token.replace(/[^.]+$/, '')],
    ['a kid that does not exist', () => signEs256({ kid: 'A'.repeat(43) })],
    ['a kid of this service, and a foreign key', () => signEs256({ kid: jwk.kid })],
    ['no kid', () => signEs256({})],
    ['a kid that is a path', () => signEs256({ kid: '../../dev/null' })],
    ['a jwk in the header', () => signEs256({ kid: jwk.kid, jwk: attacker.export({ format: 'jwk' }) })],
    [
      'the members of the header in another order',
      () => `${withHeader({ typ: 'JWT', alg: 'ES256', kid: jwk.kid })}.${token.split('.')[2]}`,
    ],
  ])('is refused with %s', async (_name, forge) => {
    expectProblem(await app.me(forge()), problems.invalidAccessToken);
  });

  it('is accepted as it was signed', async () => {
    await app.me(token).expect(200);
  });
});

describe('validate-user with Cache-Control: no-cache', () => {
  const app = useApp({ variables: { ...ES256, REVOCATION_LEASE_MS: '5000', OUTAGE_GRACE_SECONDS: '3600' } });

  it('reads the signing key from PostgreSQL, so that a verifier does not remember a token of a revoked one', async () => {
    const { access_token } = await (await app.user()).logsIn();
    const validate = () =>
      app.post('/internal/validate-user').set({ Authorization: `Bearer ${access_token}`, 'Cache-Control': 'no-cache' });
    await validate().expect(200);
    // As a replica sees it that has not heard of the revocation yet.
    await app.database.query(`ALTER TABLE signing_keys DISABLE TRIGGER USER;
      UPDATE signing_keys SET state = 'revoked', revoked_at = now() WHERE kid = '${kidOf(access_token)}'`);
    await app.me(access_token).expect(200);
    const refusal = { ...problems.invalidAccessToken, extension: { valid: false } };
    expectProblem(await validate(), refusal);
    const foreign = app.post('/internal/validate-user').set('Authorization', 'Bearer e30.e30.e30');
    expectProblem(await foreign, refusal);
  });
});

describe('the kid of a new signing key', () => {
  it('does not begin with a hyphen, so that a command line does not take it for an option', () => {
    // One in 64 thumbprints does.
    const kids = Array.from({ length: 1_000 }, () => generateKeyPair().kid);
    expect(kids.filter((kid) => kid.startsWith('-'))).toEqual([]);
    expect(kids.filter((kid) => !/^[\w-]{43}$/.test(kid))).toEqual([]);
  });
});

describe('while the database is away', () => {
  const { settings, variables } = SHORT_WAITS;
  const app = useApp({ isBehindProxy: true, settings, variables: { ...variables, ...ES256 } });

  it('the JWKS is answered from memory, and a token with an unknown kid by 503 instead of a refusal', async () => {
    const { access_token } = await withPatientReplica(app, async (patient) => (await patient.user()).logsIn());
    const jwks = await readJwks(app);
    const unknownKid = Buffer.from(`{"alg":"ES256","typ":"JWT","kid":"${'A'.repeat(43)}"}`).toString('base64url');
    const unknown = access_token.replace(/^[^.]+/, unknownKid);
    await app.proxy.close();
    expect(await readJwks(app)).toEqual(jwks);
    expectProblem(await app.me(unknown), problems.unavailable);
    expectProblem(await app.me(access_token), problems.unavailable);
    await app.proxy.open();
    expectProblem(await untilVerdict(() => app.me(unknown)), problems.invalidAccessToken);
    expect(jwks.keys.map(({ kid }) => kid)).toContain(kidOf(access_token));
  });
});
