import { problems } from '../../../src/foundation/problems/problems.js';
import { expectProblem } from '../../support/expect-problem.js';
import { pollChanges } from '../../support/poll-changes.js';
import { TestApp } from '../../support/test-app.js';
import { TestClock } from '../../support/test-clock.js';
import { createTestDatabase } from '../../support/test-database.js';
import { useApp, useAppPerTest } from '../../support/use-app.js';
import { ES256, kidOf, listKids, maintain, Operator, verifyByJwks } from './support.js';

describe('GET /.well-known/jwks.json', () => {
  const app = useApp({ variables: ES256 });

  it('has the keys with which an independent library verifies access tokens', async () => {
    const alice = await app.user();
    const { access_token } = await alice.logsIn();
    const { payload, protectedHeader } = await verifyByJwks(app, access_token);
    expect(payload).toMatchObject({ sub: alice.id, email: alice.email });
    expect(protectedHeader).toEqual({ alg: 'ES256', typ: 'JWT', kid: (await listKids(app))[0] });
    await app.me(access_token).expect(200);
  });

  it('may be cached, and shows public keys only', async () => {
    const answer = await app.get('/.well-known/jwks.json').expect(200);
    expect(answer.headers['cache-control']).toBe('public, max-age=300');
    const text = expect.stringMatching(/^[\w-]{43}$/) as string;
    const shown = { kty: 'EC', crv: 'P-256', x: text, y: text, kid: text, use: 'sig', alg: 'ES256' };
    expect(answer.body).toEqual({ keys: [shown, shown] });
  });
});

describe('a signing key', () => {
  const app = useAppPerTest({
    variables: { ...ES256, SESSION_MAX_AGE_DAYS: '3650', REFRESH_TOKEN_EXPIRE_DAYS: '3650' },
  });

  it('is replaced when it is old, by one that the JWKS had shown before', async () => {
    const alice = await app.user();
    const first = kidOf((await alice.logsIn()).access_token);
    app.clock.advance({ days: 89 });
    await maintain(app);
    const shownBefore = await listKids(app);
    app.clock.advance({ days: 1, minutes: 1 });
    await maintain(app);
    const second = kidOf((await alice.logsIn()).access_token)!;
    expect(second).not.toBe(first);
    expect(shownBefore).toContain(second);
    expect(await listKids(app)).toHaveLength(3);
  });

  it('does not sign before the JWKS has shown it for longer than caches keep it', async () => {
    const operator = new Operator(app);
    const [first] = await listKids(app);
    await expect(operator.rotate()).rejects.toThrow(/may sign from/);
    app.clock.advance({ minutes: 14 });
    await expect(operator.rotate()).rejects.toThrow(/may sign from/);
    expect((await operator.states())[first!]).toBe('active');
    app.clock.advance({ minutes: 1 });
    await operator.rotate();
    expect((await operator.states())[first!]).toBe('retired');
  });

  it('verifies its tokens after it was retired, until they have expired, and its private key is erased then', async () => {
    const alice = await app.user();
    app.clock.advance({ minutes: 20 });
    const { access_token } = await alice.logsIn();
    const kid = kidOf(access_token)!;
    await new Operator(app).retire(kid);
    app.clock.advance({ minutes: 14 });
    await app.me(access_token).expect(200);
    await verifyByJwks(app, access_token);
    app.clock.advance({ minutes: 60 });
    await maintain(app);
    expect(await listKids(app)).not.toContain(kid);
    const stored = await app.database.query(
      `SELECT state, encrypted_private_key FROM signing_keys WHERE kid = '${kid}'`,
    );
    expect(stored).toEqual([{ state: 'retired', encrypted_private_key: null }]);
    // Its ACCESS_TOKEN_EXPIRE_MINUTES is another, so it would still show the key.
    const replica = await app.startReplica({ variables: { ACCESS_TOKEN_EXPIRE_MINUTES: '600' } });
    expect(await listKids(replica)).toEqual(await listKids(app));
  });
});

describe('signing keys', () => {
  // Longer than the times that the test lets pass.
  const app = useApp({ variables: { ...ES256, ACCESS_TOKEN_EXPIRE_MINUTES: '600' } });

  it('are rotated under load, and no good token is refused by either of two replicas', async () => {
    const replica = await app.startReplica();
    const alice = await app.user();
    const operator = new Operator(app);
    app.clock.advance({ minutes: 20 });
    // Tokens of both replicas, verified by both, while keys are replaced.
    const statuses: number[] = [];
    const kids = new Set<string | undefined>();
    let isOver = false;
    const load = [app, replica].map(async (signer) => {
      while (!isOver) {
        const { access_token } = await alice.logsIn(signer);
        kids.add(kidOf(access_token));
        for (const verifier of [app, replica]) statuses.push((await verifier.me(access_token)).status);
      }
    });
    for (let rotation = 0; rotation < 4; rotation += 1) {
      await operator.rotate();
      await maintain(replica);
      kids.add(kidOf((await alice.logsIn(replica)).access_token));
      app.clock.advance({ minutes: 15 });
    }
    isOver = true;
    await Promise.all(load);
    expect(kids.size).toBeGreaterThan(2);
    expect(new Set(statuses)).toEqual(new Set([200]));
  });
});

describe('the first signing key', () => {
  it('is made once by replicas that start together', async () => {
    const database = await createTestDatabase();
    const clock = new TestClock();
    const apps = await Promise.all([1, 2, 3].map(() => TestApp.start({ database, clock, variables: ES256 })));
    const states = Object.values(await new Operator(apps[0]!).states());
    expect(states.sort()).toEqual(['active', 'next']);
    const { access_token } = await (await apps[0]!.user()).logsIn();
    for (const each of apps) await each.me(access_token).expect(200);
    for (const each of apps) await each.stop();
    await database.drop();
  });
});

describe('a revoked signing key', () => {
  const app = useAppPerTest({ variables: { ...ES256, REVOCATION_LEASE_MS: '1000' } });

  it('has its tokens refused by every replica when the call has answered, resets verifiers, and the next key signs', async () => {
    const replica = await app.startReplica();
    const alice = await app.user();
    const { access_token, refresh_token } = await alice.logsIn();
    for (const each of [app, replica]) await each.me(access_token).expect(200);
    const verifier = await app.service('ocr', 'auth');
    const { cursor } = await pollChanges(app, verifier);
    await new Operator(app).revoke(kidOf(access_token)!);
    expect(await pollChanges(app, verifier, cursor)).toMatchObject({ reset: true, changes: [] });
    for (const each of [app, replica]) {
      expectProblem(await each.me(access_token), problems.invalidAccessToken);
      expect(await listKids(each)).not.toContain(kidOf(access_token));
    }
    const { body } = await replica.refresh(refresh_token).expect(200);
    await app.me(body.access_token as string).expect(200);
  });

  it('is replaced by a new one when none was next, and is recorded once', async () => {
    const alice = await app.user();
    const operator = new Operator(app);
    for (const kid of await listKids(app)) {
      await operator.revoke(kid);
      await operator.revoke(kid);
    }
    const { access_token } = await alice.logsIn();
    await app.me(access_token).expect(200);
    expect(Object.values(await operator.states()).sort()).toEqual(['active', 'next', 'revoked', 'revoked']);
    const { body } = await app.admin.get('/audit-events?event=signing_key.revoked').expect(200);
    expect(body.items).toHaveLength(2);
  });
});
