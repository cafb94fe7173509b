import { writeFileSync } from 'node:fs';
import { createHmac, createPublicKey, type JsonWebKey, type KeyObject, sign } from 'node:crypto';
import { problems } from '../../src/problems/problems.js';
import { useCli } from '../support/cli.js';
import { expectProblem } from '../support/expect-problem.js';
import { useApp } from '../support/use-app.js';
import { ES256, kidOf, listKids, readJwks } from './support.js';
import { generateKeyPair } from '../../src/crypto/key-pair.js';
import { SECRET_KEY } from '../support/settings.js';
import { SHORT_WAITS, withPatientReplica } from '../support/outage.js';
import { untilVerdict } from '../support/until-verdict.js';

interface Report {
  readonly keys: { readonly kid: string; readonly state: string }[];
}

describe('platform-auth keys, of a service that signs with HS256', () => {
  const app = useApp();
  const cli = useCli(app);

  it('says that there are none, because SECRET_KEY signs', async () => {
    const operate = cli.with({ DATABASE_URL: app.database.url });
    expect(await operate.ok('keys', 'list')).toMatch(
      /^There are no signing keys\. Under HS256 .* signs with SECRET_KEY/,
    );
    expect(await operate.json('keys', 'list')).toEqual({ keys: [] });
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

describe('validate-user with Cache-Control: no-cache', () => {
  const app = useApp({ variables: { ...ES256, REVOCATION_LEASE_MS: '5000', OUTAGE_GRACE_SECONDS: '3600' } });

  it('reads the signing key from PostgreSQL, so that a verifier does not remember a token of a revoked one', async () => {
    const { access_token } = await (await app.user()).logsIn();
    const validate = () =>
      app.post('/internal/validate-user').set({ Authorization: `Bearer ${access_token}`, 'Cache-Control': 'no-cache' });
    await validate().expect(200);
    // As a replica sees it that has not heard of the revocation yet.
    await app.database.query('ALTER TABLE signing_keys DISABLE TRIGGER USER');
    await app.database.query(`UPDATE signing_keys SET state = 'revoked', revoked_at = now() WHERE kid = $1`, [
      kidOf(access_token),
    ]);
    await app.me(access_token).expect(200);
    const { status, body } = await validate();
    expect({ status, body: body as unknown }).toMatchObject({
      status: 401,
      body: { code: problems.invalidAccessToken.code, valid: false },
    });
  });

  it('refuses a token without a key of this service', async () => {
    const answer = await app.post('/internal/validate-user').set('Authorization', 'Bearer e30.e30.e30');
    expectProblem(answer, { ...problems.invalidAccessToken, extension: { valid: false } });
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
