import { randomUUID } from 'node:crypto';
import { computeDigest } from '../../../src/foundation/crypto/secret.js';
import { Database } from '../../../src/foundation/database/database.js';
import { OPERATOR_KEYS, type OperatorKeys } from '../../../src/domain/operators/operators.service.js';
import { problems } from '../../../src/foundation/problems/problems.js';
import { eventually } from '../../../tools/eventually.js';
import { recorded } from '../../domain/audit/record.js';
import { expectProblem } from '../../support/expect-problem.js';
import { SHORT_WAITS, withPatientReplica } from '../../support/outage.js';
import { scrape } from '../../support/scrape.js';
import { ADMIN_KEY, UNLEASED } from '../../support/settings.js';
import type { NamedOperator, TestApp } from '../../support/test-app.js';
import { countByStatus, expectThrottled } from '../../support/throttled.js';
import { useApp, useReplica } from '../../support/use-app.js';

const app = useApp({ variables: UNLEASED });
const replica = useReplica(app);

const UNKNOWN_KEY = `pa_admin_${'A'.repeat(43)}`;

describe('the key of an operator', () => {
  const { clock } = app;

  const rotate = async ({ id }: NamedOperator, body: object = {}): Promise<string> =>
    ((await app.admin.post(`/operators/${id}/rotate`, body).expect(200)).body as { api_key: string }).api_key;

  it('is refused on the next call on every replica once the operator is revoked', async () => {
    const operator = await app.operator(['read']);
    for (const each of [app, replica]) await operator.as(each).get('/nodes').expect(200);
    await app.admin.delete(`/operators/${operator.id}`).expect(204);
    for (const each of [replica, app]) expectProblem(await operator.as(each).get('/nodes'), problems.invalidAdminKey);
    expect(app.log.events('admin.key.refused').at(-1)).toMatchObject({ reason: 'revoked', operator: operator.name });
  });

  it('has its new scopes on the next call on every replica', async () => {
    const operator = await app.operator(['read']);
    await operator.as(replica).get('/nodes').expect(200);
    await app.admin.patch(`/operators/${operator.id}`, { scopes: ['apps'] }).expect(200);
    await operator.as(replica).get('/nodes').expect(403);
    await operator.as(replica).get('/app-credentials').expect(200);
  });

  it('stays valid after a rotation, also when the new one is used, on every replica', async () => {
    const operator = await app.operator(['read']);
    const next = await rotate(operator);
    for (const each of [app, replica]) await operator.as(each).get('/nodes').expect(200);
    await replica.asAdmin(next).get('/nodes').expect(200);
    for (const each of [app, replica]) await operator.as(each).get('/nodes').expect(200);
    await app.asAdmin(next).get('/nodes').expect(200);
  });

  it('finishes its own rotation, and that of an operator with no more rights', async () => {
    const [manager, other] = [await app.operator(['operators']), await app.operator(['read'])];
    await rotate(manager);
    await manager.as().post(`/operators/${manager.id}/finish-rotation`).expect(204);
    expectProblem(await manager.as().get('/operators'), problems.invalidAdminKey);
    const next = await app.operator(['operators']);
    expectProblem(await next.as().post(`/operators/${other.id}/finish-rotation`), problems.exceedsOwnRights);
  });

  it.each([0, 1])('stays valid after a rotation until the deadline, here %i hours later', async (overlap_hours) => {
    const operator = await app.operator(['read']);
    const next = await rotate(operator, { overlap_hours });
    if (overlap_hours > 0) await operator.as().get('/nodes').expect(200);
    clock.advance({ minutes: overlap_hours * 61 });
    expectProblem(await operator.as().get('/nodes'), problems.invalidAdminKey);
    await app.asAdmin(next).get('/nodes').expect(200);
  });

  it('survives a second rotation whose predecessor was never used, as when an answer was lost', async () => {
    const operator = await app.operator(['read']);
    const lost = await rotate(operator);
    const next = await rotate(operator);
    await operator.as().get('/nodes').expect(200);
    expectProblem(await app.asAdmin(lost).get('/nodes'), problems.invalidAdminKey);
    await app.asAdmin(next).get('/nodes').expect(200);
    await operator.as().get('/nodes').expect(200);
  });

  it('is one of two at most after 20 concurrent rotations: the first and one new one', async () => {
    const operator = await app.operator(['read']);
    const keys = await Promise.all(Array.from({ length: 20 }, () => rotate(operator)));
    await operator.as().get('/nodes').expect(200);
    const answers = [];
    for (const key of keys) answers.push(await app.asAdmin(key).get('/nodes'));
    expect(countByStatus(answers)).toEqual({ 200: 1, 401: 19 });
  });

  it('has the time of its last use, which is not written at each call, and one row for its first use', async () => {
    const operator = await app.operator(['read']);
    // Just started, so that what they hold back is not due within the test.
    const [one, two] = [await app.startReplica(), await app.startReplica()];
    const lastUsed = async () =>
      ((await app.admin.get(`/operators/${operator.id}`)).body as Record<string, unknown>).last_used_at;
    const at = clock.now().getTime();
    for (let used = 0; used < 3; used += 1) await operator.as(one).get('/nodes').expect(200);
    expect(await lastUsed()).toBeNull();
    await operator.as(two).get('/nodes').expect(200);
    for (const { nest } of [one, two]) await nest.get<OperatorKeys>(OPERATOR_KEYS, { strict: false }).flushLastUsed();
    expect(Date.parse(String(await lastUsed()))).toBeGreaterThanOrEqual(at);
    const actor = { door: 'admin', id: operator.id, name: `operator:${operator.name}` };
    const uses = await recorded(app, { subject: operator.id, event: 'operator.first_used' });
    expect(uses).toMatchObject([{ actor, count: 1 }]);
    for (const each of [one, two]) await each.stop();
  });

  it('gives no access at another door, in another header or spelling, nor twice', async () => {
    const { key } = await app.operator(['read', 'nodes', 'apps', 'users', 'operators']);
    await app.validateNode(key).expect(401);
    for (const header of [{ Authorization: `Bearer ${key}` }, { 'X-API-Key': key }])
      await app.get('/api/v0/admin/nodes').set(header).expect(401);
    for (const wrong of [` ${key}x`, key.toLowerCase(), ''])
      expectProblem(await app.asAdmin(wrong).get('/nodes'), problems.invalidAdminKey);
    const twice = app.get('/api/v0/admin/nodes').set('X-Admin-Key', [key, key] as unknown as string);
    expectProblem(await twice, problems.duplicateHeader);
  });
});

describe('a refused admin key', () => {
  const app = useApp({ variables: { ...UNLEASED, METRICS_PORT: '0' } });

  it('gets the same answer, costs the same statements and counts the same, for whatever reason', async () => {
    app.clock.enterNextWindow();
    const expired = await app.operator(['read'], undefined, app.clock.now().toISOString());
    const revoked = await app.operator(['read']);
    await app.admin.delete(`/operators/${revoked.id}`).expect(204);
    const keys = {
      wrong: `${ADMIN_KEY}x`,
      unknown: UNKNOWN_KEY,
      almost: `${revoked.key.slice(0, -1)}${revoked.key.endsWith('A') ? 'E' : 'A'}`,
      revoked: revoked.key,
      expired: expired.key,
    };
    const run = jest.spyOn(Database.prototype, 'rows');
    const answers = [];
    for (const key of Object.values(keys)) {
      run.mockClear();
      const { status, body, headers } = await app.asAdmin(key).get('/nodes');
      const { request_id, instance, ...same } = body as Record<string, unknown>;
      expect(instance).toBe(`urn:request:${String(request_id)}`);
      const { date, 'x-request-id': id, ...sameHeaders } = headers as Record<string, string>;
      expect(date && id).toBeTruthy();
      // Background work of the application runs statements too.
      const statements = run.mock.calls
        .map(([{ name }]) => name)
        .filter((name) => /^(operators|throttle|counted)_/.test(name));
      answers.push({ status, same, sameHeaders, statements });
    }
    run.mockRestore();
    for (const answer of answers) expect(answer).toEqual(answers[0]);
    expect(answers[0]?.statements).toEqual(['operators_find_by_digest', 'throttle_reserve', 'counted_refusals_count']);
    const [row] = await recorded(app, { event: 'admin.key.refused' });
    expect(row).toMatchObject({ count: 5, details: { reasons: { wrong_key: 3, revoked: 1, expired: 1 } } });
  });

  it('is counted in the metrics; a valid key is counted under the name of its operator', async () => {
    const grace = await app.operator(['nodes'], 'grace');
    const value = async (name: string, labels: Record<string, string>) => (await scrape(app)).value(name, labels);
    const before = await value('admin_requests_total', { actor: 'admin' });
    await grace.as().get('/nodes').expect(200);
    await grace.as().get('/users').expect(403);
    await app.admin.get('/nodes').expect(200);
    await eventually('the last one is counted', async () => {
      const count = await value('admin_requests_total', { actor: 'admin' });
      return count === Number(before) + 1;
    });
    expect(await value('admin_requests_total', { actor: 'operator:grace' })).toBe(2);
    expect(await value('flow_refusals_total', { event: 'admin.scope.refused', reason: 'users' })).toBe(1);
  });
});

const LIMIT = 5;
const LIMITED = { variables: UNLEASED, settings: { adminKeyLimitPerAddress: { points: LIMIT, seconds: 900 } } };

describe('wrong guesses of admin keys', () => {
  const app = useApp(LIMITED);

  it('are 429 beyond the limit, also with the form of an operator’s key, and do not shut out a valid key', async () => {
    const operator = await app.operator(['read']);
    const answers = await Promise.all(
      Array.from({ length: 30 }, (_, index) => app.asAdmin(index % 2 ? UNKNOWN_KEY : 'wrong').get('/nodes')),
    );
    expect(countByStatus(answers)).toEqual({ 401: LIMIT, 429: 30 - LIMIT });
    await operator.as().get('/nodes').expect(200);
    await app.admin.delete(`/operators/${operator.id}`).expect(204);
    expectThrottled(await operator.as().get('/nodes'));
  });
});

describe('guesses of the root key in keys/identify', () => {
  const app = useApp(LIMITED);

  it('are throttled as wrong admin keys: by an operator and by the root key, but known digests are not', async () => {
    const [operator, node] = [await app.operator(['read']), await app.node()];
    const identify = (by: TestApp['admin'], ...keys: string[]) =>
      by.post('/keys/identify', { digests: keys.map((key) => computeDigest(key).toString('hex')) });
    for (let call = 0; call <= LIMIT; call++) {
      await identify(operator.as(), node.apiKey).expect(200);
      await identify(app.admin, node.apiKey).expect(200);
    }
    const { body } = await identify(app.admin, ADMIN_KEY).expect(200);
    expect(body).toMatchObject({ items: [{ kind: 'root' }] });
    for (let call = 1; call < LIMIT; call++)
      await identify(call % 2 === 0 ? app.admin : operator.as(), node.apiKey, 'a guess').expect(200);
    for (const by of [operator.as(), app.admin]) expectThrottled(await identify(by, ADMIN_KEY));
  });
});

describe.each([undefined, ''])('with the ADMIN_API_KEY %p', (ADMIN_API_KEY) => {
  const replica = useReplica(app, { variables: { ADMIN_API_KEY } });

  it('the root key alone is refused: the keys of operators go on', async () => {
    const operator = await app.operator(['read', 'operators']);
    await operator.as(replica).get('/nodes').expect(200);
    const added = await operator.as(replica).post('/operators', { name: randomUUID(), scopes: ['read'] });
    const { api_key } = added.body as { api_key: string };
    await replica.asAdmin(api_key).get('/nodes').expect(200);
    expectProblem(await replica.get('/api/v0/admin/nodes'), problems.invalidAdminKey);
    for (const key of ['', ADMIN_KEY, UNKNOWN_KEY, 'undefined', 'x'.repeat(40)])
      expectProblem(await replica.asAdmin(key).get('/nodes'), problems.invalidAdminKey);
    expect(replica.log.events('admin.key.refused').at(-1)).toMatchObject({ reason: 'wrong_key' });
  });
});

describe('while the database is unreachable', () => {
  const app = useApp({ isBehindProxy: true, ...SHORT_WAITS });

  it('every admin key that is not the root key is 503, never 401', async () => {
    const [live, revoked] = await withPatientReplica(app, async (patient) => {
      const operators = [await patient.operator(['read']), await patient.operator(['read'])] as const;
      await patient.admin.delete(`/operators/${operators[1].id}`).expect(204);
      return operators;
    });
    await app.proxy.close();
    for (const key of [live.key, revoked.key, UNKNOWN_KEY, 'wrong'])
      expectProblem(await app.asAdmin(key).get('/nodes'), problems.unavailable);
    expectProblem(await live.as(app).post('/operators', { name: 'ivan', scopes: ['read'] }), problems.unavailable);
  });
});
