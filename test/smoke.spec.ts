import { TestApp } from './support/test-app.js';
import { expectProblem } from './support/expect-problem.js';
import { problems } from '../src/common/problems.js';

describe('smoke', () => {
  let app: TestApp;
  beforeAll(async () => {
    app = await TestApp.start();
  });
  afterAll(async () => {
    await app.stop();
  });
  it('does all flows', async () => {
    const alice = await app.user('Alice@example.org');
    const t = await alice.logsIn();
    const me = await app.me(t.access_token);
    expect(me.status).toBe(200);
    expect(me.body.email).toBe('alice@example.org');
    const r1 = await app.refresh(t.refresh_token);
    expect(r1.status).toBe(200);
    const r2 = await app.refresh(t.refresh_token);
    expect(r2.body.refresh_token).toBe(r1.body.refresh_token);
    const r3 = await app.refresh(r1.body.refresh_token);
    expect(r3.status).toBe(200);
    expectProblem(await app.refresh(t.refresh_token), problems.invalidRefreshToken);
    expectProblem(await app.refresh(r3.body.refresh_token), problems.invalidRefreshToken);
    expectProblem(await app.me(t.access_token), problems.invalidAccessToken);
    const node = await app.node();
    expect((await app.validateNode(node.header)).body).toEqual({
      valid: true,
      node_id: node.nodeId,
      household_id: node.householdId,
    });
    expectProblem(await app.validateNode('x:y'), problems.invalidNodeCredentials);
    const s = await app.service();
    expect((await app.validateApp(s.headers)).status).toBe(200);
    expectProblem(await app.validateApp(s.headers, { target: 'other' }), problems.invalidAppCredentials);
    expect((await app.admin.get('/nodes')).body.items).toHaveLength(1);
    expectProblem(await app.get('/nope'), problems.notFound);
    const d = await app.get('/docs-json');
    expect(d.status).toBe(200);
    for (const bad of ['{"a":', '[]', '"x"']) {
      const res = await app.post('/api/v0/auth/login').set('Content-Type', 'application/json').send(bad);
      expectProblem(res, problems.malformedRequest);
    }
    const x = await app.post('/auth/login').send('email=1');
    expectProblem(x, problems.unsupportedMediaType);
  });
});
