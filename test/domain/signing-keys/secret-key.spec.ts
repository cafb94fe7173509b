import { problems } from '../../../src/foundation/problems/problems.js';
import { expectProblem } from '../../support/expect-problem.js';
import { MASTER_KEY, SECRET_KEY } from '../../support/settings.js';
import { TestApp } from '../../support/test-app.js';
import { TestClock } from '../../support/test-clock.js';
import { createTestDatabase, type TestDatabase } from '../../support/test-database.js';
import { useAppPerTest } from '../../support/use-app.js';
import { FactorOwner } from '../second-factors/owner.js';
import { ES256, kidOf, listKids, maintain, Operator, readJwks, verifyByJwks } from './support.js';

const NEW_SECRET_KEY = 'test-signing-Qw7eRt5yUi3oPa9sDf1gHj6kLz8xCv2b';
const NEW_MASTER_KEY = 'test-deriving-Qw7eRt5yUi3oPa9sDf1gHj6kLz8xCv2b';
const ROTATED_MASTER_KEY = { MASTER_KEY: NEW_MASTER_KEY, MASTER_KEY_PREVIOUS: MASTER_KEY };

describe('a rotation of MASTER_KEY under ES256', () => {
  let database: TestDatabase;
  beforeEach(async () => (database = await createTestDatabase()));
  afterEach(() => database.drop());

  it('keeps the signing keys, which are encrypted anew at the start', async () => {
    const before = await TestApp.start({ database, variables: ES256 });
    const alice = await before.user();
    const { access_token } = await alice.logsIn();
    const during = await before.startReplica({ variables: ROTATED_MASTER_KEY });
    await during.me(access_token).expect(200);
    // It has the keys in memory.
    await before.me((await alice.logsIn(during)).access_token).expect(200);
    await before.stop();
    const after = await TestApp.start({ database, variables: { ...ES256, MASTER_KEY: NEW_MASTER_KEY } });
    await after.me(access_token).expect(200);
    expect(kidOf((await alice.logsIn(after)).access_token)).toBe(kidOf(access_token));
    await after.stop();
  });

  it('without MASTER_KEY_PREVIOUS stops the start, and says what to do', async () => {
    const before = await TestApp.start({ database, variables: ES256 });
    const kids = await listKids(before);
    await before.stop();
    const broken = new TestApp({ database, variables: { ...ES256, MASTER_KEY: NEW_MASTER_KEY } });
    await expect(broken.start()).rejects.toThrow(/Set MASTER_KEY_PREVIOUS to the former value/);
    await broken.stop();
    const again = await TestApp.start({ database, variables: ES256 });
    expect(await listKids(again)).toEqual(kids);
    await again.stop();
  });

  it('leaves no private key that can be read in the database', async () => {
    const app = await TestApp.start({ database, variables: ES256 });
    const rows = await database.query<{ encrypted_private_key: Buffer }>('SELECT * FROM signing_keys');
    expect(rows).toHaveLength(2);
    // The object identifier of EC keys, which PKCS #8 has in plain text.
    for (const { encrypted_private_key } of rows)
      expect(encrypted_private_key.toString('hex')).not.toContain('2a8648ce3d0201');
    await app.stop();
  });
});

describe('a replica that was not given the new MASTER_KEY, beside one that makes signing keys with it,', () => {
  // Without a lease it reads the keys for each request.
  const app = useAppPerTest({ variables: { ...ES256, REVOCATION_LEASE_MS: '0' } });
  const expectUnavailable = async (): Promise<void> => {
    const refused = await app.get('/.well-known/jwks.json');
    expectProblem(refused, problems.unavailable);
    expect(refused.headers['cache-control']).toBe('no-store');
  };

  it('answers 503, which no cache keeps, instead of a JWKS without a key, until that key is given up', async () => {
    const alice = await app.user();
    const rotated = await app.startReplica({ variables: ROTATED_MASTER_KEY });
    const known = await listKids(app);
    app.clock.advance({ minutes: 15 });
    const operator = new Operator(rotated);
    await operator.rotate();
    await maintain(rotated);
    const [unreadable, ...others] = (await listKids(rotated)).filter((kid) => !known.includes(kid));
    expect(others).toEqual([]);
    await expectUnavailable();
    // It has the active key in memory.
    await app.me((await alice.logsIn(app)).access_token).expect(200);
    await operator.revoke(unreadable!);
    expect((await listKids(app)).sort()).toEqual(known.sort());
  });

  it('answers 503 instead of the empty JWKS of HS256, to a token and to a login, when it can decrypt no key', async () => {
    const alice = await app.user();
    const rotated = await app.startReplica({ variables: ROTATED_MASTER_KEY });
    for (const kid of await listKids(app)) await new Operator(rotated).revoke(kid);
    await maintain(rotated);
    const { access_token } = await alice.logsIn(rotated);
    await verifyByJwks(rotated, access_token);
    await expectUnavailable();
    expectProblem(await app.me(access_token), problems.unavailable);
    expectProblem(await app.login(alice.email), problems.unavailable);
  });
});

describe('a rotation of SECRET_KEY', () => {
  const app = useAppPerTest();

  it('accepts the tokens of the former key while SECRET_KEY_PREVIOUS is set', async () => {
    const { access_token } = await (await app.user()).logsIn();
    const during = await app.startReplica({
      variables: { SECRET_KEY: NEW_SECRET_KEY, SECRET_KEY_PREVIOUS: SECRET_KEY },
    });
    await during.me(access_token).expect(200);
    const after = await app.startReplica({ variables: { SECRET_KEY: NEW_SECRET_KEY } });
    expectProblem(await after.me(access_token), problems.invalidAccessToken);
  });
});

describe('a service that holds SECRET_KEY, as dependents do under HS256,', () => {
  const app = useAppPerTest();
  /** Derives all keys from SECRET_KEY. */
  const forger = async () => app.startReplica({ variables: { MASTER_KEY: SECRET_KEY } });

  it('cannot make a login challenge, which would stand for the password', async () => {
    const owner = await FactorOwner.withTotp(app);
    const forged = await owner.isChallenged(await forger());
    const answer = await owner.answers(forged.challenge, 'totp', { code: owner.code() });
    expectProblem(answer, problems.invalidSecondFactor);
    await owner.logsInWithCode();
  });

  it('cannot decrypt TOTP secrets', async () => {
    const owner = await FactorOwner.withTotp(app);
    const thief = await forger();
    const { challenge } = await owner.isChallenged(thief);
    const answer = await owner.answers(challenge, 'totp', { code: owner.code() }, thief);
    expectProblem(answer, problems.totpSecretUnreadable);
  });
});

describe('a change of ACCESS_TOKEN_ALGORITHM', () => {
  const app = useAppPerTest();

  it('to ES256 accepts tokens of HS256 for one token life after the last one was signed', async () => {
    const alice = await app.user();
    const hs256 = await app.startReplica();
    const es256 = await app.startReplica({ variables: ES256 });
    const { access_token } = await alice.logsIn(es256);
    await hs256.me(access_token).expect(200);
    await verifyByJwks(hs256, access_token);
    app.clock.advance({ minutes: 120 });
    await maintain(hs256);
    const late = await alice.logsIn(hs256);
    await es256.me(late.access_token).expect(200);
    app.clock.advance({ minutes: 14 });
    await es256.me(late.access_token).expect(200);
    app.clock.advance({ minutes: 60 });
    const forged = await app.startReplica({ clock: app.clock, variables: ES256 });
    expectProblem(await forged.me(late.access_token), problems.invalidAccessToken);
  });

  it('back to HS256 accepts tokens of ES256 for one token life, and then retires the keys', async () => {
    const alice = await app.user();
    const es256 = await app.startReplica({ variables: ES256 });
    const { access_token } = await alice.logsIn(es256);
    await es256.stop();
    await maintain(app);
    await app.me(access_token).expect(200);
    await verifyByJwks(app, access_token);
    app.clock.advance({ minutes: 60 });
    await maintain(app);
    expect(await readJwks(app)).toEqual({ keys: [] });
    const states = await app.database.query('SELECT DISTINCT state FROM signing_keys');
    expect(states).toEqual([{ state: 'retired' }]);
  });

  it('is recorded by the clock of PostgreSQL, not by the clock of a replica that is 50 seconds ahead', async () => {
    const clock = new TestClock();
    clock.drift({ seconds: 50 });
    const ahead = await app.startReplica({ clock });
    await (await app.user()).logsIn(ahead);
    const future = await app.database.query(`SELECT * FROM signing_algorithms WHERE last_signed_at > now()`);
    expect(future).toEqual([]);
  });
});
