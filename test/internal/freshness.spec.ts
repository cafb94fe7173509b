import type { Database } from '../../src/database/database.js';
import { NODE_KEYS } from '../../src/nodes/nodes.service.js';
import { LeaseAnnouncement } from '../../src/revocation/propagation.js';
import { problems } from '../../src/problems/problems.js';
import { expectProblem } from '../support/expect-problem.js';
import { TestClock } from '../support/test-clock.js';
import { useApp } from '../support/use-app.js';

const NO_CACHE = { 'Cache-Control': 'no-cache' };

describe('validations with Cache-Control: no-cache', () => {
  const clock = new TestClock();
  const app = useApp({ clock });

  const freshness = (headers: Record<string, string>) => ({
    remember: headers['x-platform-remember'],
    expiresIn: Number(headers['x-platform-expires-in']),
    freshForMs: headers['x-platform-fresh-for-ms'],
  });

  it('tell how long a verdict may be used, and that it may be remembered', async () => {
    const [node, service, user] = [await app.node(), await app.service('ocr', 'recipes'), await app.user()];
    const { access_token } = await user.logsIn();
    const answers = [
      await app.validateNode(node.header).set(NO_CACHE).expect(200),
      await app.validateApp(service.headers).set(NO_CACHE).expect(200),
      await app
        .post('/internal/validate-user')
        .set('Authorization', `Bearer ${access_token}`)
        .set(NO_CACHE)
        .expect(200),
    ];
    for (const { headers } of answers)
      expect(freshness(headers as Record<string, string>)).toEqual({
        remember: 'yes',
        expiresIn: 60,
        freshForMs: '100',
      });
  });

  it('say nothing about it to callers that do not ask', async () => {
    const node = await app.node();
    const { headers } = await app.validateNode(node.header).expect(200);
    expect(freshness(headers as Record<string, string>)).toEqual({
      remember: undefined,
      expiresIn: NaN,
      freshForMs: undefined,
    });
  });

  it('round down to the expiry of the key, or of the access token', async () => {
    const [user, node, moment] = [await app.user(), await app.node(), clock.now().getTime()];
    const { access_token } = await user.logsIn();
    // The access token has lived for all but 21 of its 900 seconds.
    clock.advance({ seconds: 879 });
    const expires_at = new Date(moment + 899_500).toISOString();
    await app.admin.patch(`/nodes/${node.nodeId}`, { expires_at }).expect(200);
    const pair = { caller: 'ocr', target: 'reminders', expires_at };
    const { body } = await app.admin.post('/app-credentials', pair).expect(201);
    const headers = { 'X-Platform-App-Id': body.app_id as string, 'X-Platform-App-Key': body.app_key as string };
    const bearer = { Authorization: `Bearer ${access_token}` };
    for (const call of [
      app.validateNode(node.header),
      app.validateApp(headers),
      app.post('/internal/validate-user').set(bearer),
    ]) {
      const { remember, expiresIn } = freshness((await call.set(NO_CACHE).expect(200)).headers);
      expect(remember).toBe('yes');
      expect(expiresIn).toBeLessThanOrEqual(21);
      expect(expiresIn).toBeGreaterThan(0);
    }
  });

  it('do not let either key be remembered during the overlap of a rotation', async () => {
    const node = await app.node();
    await app.admin.post(`/nodes/${node.nodeId}/rotate`).expect(200);
    const { headers } = await app.validateNode(node.header).set(NO_CACHE).expect(200);
    expect(freshness(headers as Record<string, string>).remember).toBe('no');
  });

  it('are read from PostgreSQL, not from the cache', async () => {
    const [node, service] = [await app.node(), await app.service()];
    // It remembers them for as long as this test runs.
    const cached = await app.startReplica({ variables: { OUTAGE_GRACE_SECONDS: '3600' } });
    await cached.validateNode(node.header).expect(200);
    await cached.validateApp(service.headers).expect(200);
    for (const [table, id] of [
      ['nodes', node.nodeId],
      ['app_credentials', service.appId],
    ] as const) {
      await app.database.query(`ALTER TABLE ${table} DISABLE TRIGGER USER`);
      await app.database.query(`UPDATE ${table} SET revoked_at = now() WHERE id = $1`, [id]);
      await app.database.query(`ALTER TABLE ${table} ENABLE ALWAYS TRIGGER ${table}_record_update`);
      await app.database.query(`ALTER TABLE ${table} ENABLE ALWAYS TRIGGER ${table}_record_delete`);
    }
    await cached.validateNode(node.header).expect(200);
    await cached.validateApp(service.headers).expect(200);
    expectProblem(await cached.validateNode(node.header).set(NO_CACHE), problems.invalidNodeCredentials);
    expectProblem(await cached.validateApp(service.headers).set(NO_CACHE), problems.invalidAppCredentials);
    await cached.stop();
  });

  it('hand on half a second, and nothing to remember, when the lease is 0', async () => {
    const node = await app.node();
    const unleased = await app.startReplica({ variables: { REVOCATION_LEASE_MS: '0' } });
    const { headers } = await unleased.validateNode(node.header).set(NO_CACHE).expect(200);
    expect(freshness(headers as Record<string, string>)).toEqual({ remember: 'no', expiresIn: 60, freshForMs: '500' });
    await unleased.stop();
  });

  it.each([
    ['on arrival', [false, true]],
    ['when it is answered', [true, false]],
  ])('hand on nothing while revoking calls do not know the promises of the replica %s', async (_when, answers) => {
    const node = await app.node();
    const replica = await app.startReplica();
    const isCurrent = jest.spyOn(replica.nest.get(LeaseAnnouncement), 'isCurrent', 'get');
    // The feed of the replica asks too, between the two judgements of the request.
    isCurrent.mockReturnValue(answers[0]!);
    const { database } = replica.nest.get<{ database: Database }>(NODE_KEYS);
    const rows = jest.spyOn(database, 'rows');
    rows.mockImplementation((...read) => {
      isCurrent.mockReturnValue(answers[1]!);
      rows.mockRestore();
      return database.rows(...read);
    });
    const { headers } = await replica.validateNode(node.header).set(NO_CACHE).expect(200);
    expect(freshness(headers as Record<string, string>)).toEqual({ remember: 'no', expiresIn: 60, freshForMs: '0' });
    await replica.stop();
  });
});
