import { randomUUID } from 'node:crypto';
import { problems } from '../../../src/foundation/problems/problems.js';
import { recorded, type Item } from '../../domain/audit/record.js';
import { eventually } from '../../../tools/eventually.js';
import { expectInvalid, expectProblem } from '../../support/expect-problem.js';
import { scrape } from '../../support/scrape.js';
import { countByStatus } from '../../support/throttled.js';
import { UNLEASED } from '../../support/settings.js';
import { useApp } from '../../support/use-app.js';

type View = Record<string, unknown> & { operator_id: string; api_key?: string };

describe('/api/v0/admin/operators', () => {
  const app = useApp({ variables: UNLEASED });
  const { clock } = app;
  const newName = (): string => `alice-${randomUUID()}`;

  it('adds an operator whose key opens the admin door, with its scopes in order, and finds it by name', async () => {
    const name = newName();
    const { body } = await app.admin.post('/operators', { name, scopes: ['nodes', 'read'] }).expect(201);
    const { api_key, ...shown } = body as View;
    expect(shown).toMatchObject({ name, scopes: ['read', 'nodes'], expires_at: null });
    const found = { items: [shown], next_cursor: null };
    expect((await app.admin.get(`/operators?name=${name.toUpperCase()}`)).body).toEqual(found);
    await app.asAdmin(api_key!).get('/nodes').expect(200);
  });

  it('accepts exactly one of 50 concurrent adds of one name that differ only in case', async () => {
    const name = newName();
    const names = Array.from({ length: 50 }, (_, index) => (index % 2 ? name : name.toUpperCase()));
    const answers = await Promise.all(
      names.map((each) => app.admin.post('/operators', { name: each, scopes: ['read'] })),
    );
    expect(countByStatus(answers)).toEqual({ 201: 1, 409: 49 });
    for (const loser of answers.filter(({ status }) => status === 409)) expectProblem(loser, problems.operatorExists);
    expect(answers.find(({ status }) => status === 201)?.body).toMatchObject({ name });
  });

  it('frees the name of a revoked operator, and keeps its row for the record', async () => {
    const { id, name } = await app.operator();
    await app.admin.delete(`/operators/${id}`).expect(204);
    const again = await app.operator(['read'], name);
    const { items } = (await app.admin.get(`/operators?name=${name}`)).body as { items: View[] };
    expect(items).toMatchObject([
      { operator_id: id, revoked_at: expect.any(String) as string },
      { operator_id: again.id, revoked_at: null },
    ]);
  });

  it('changes scopes and expiry from the next call on, and records only what changed', async () => {
    const operator = await app.operator(['read', 'nodes']);
    const path = `/operators/${operator.id}`;
    const changed = await app.admin.patch(path, { scopes: ['nodes'] }).expect(200);
    expect(changed.body).toMatchObject({ scopes: ['nodes'], expires_at: null });
    await operator.as().get('/users').expect(403);
    const expires_at = new Date(clock.now().getTime() + 60_000).toISOString();
    await app.admin.patch(path, { expires_at }).expect(200);
    await app.admin.patch(path, { expires_at, scopes: ['nodes'] }).expect(200);
    await app.admin.patch(path, {}).expect(200);
    await operator.as().get('/nodes').expect(200);
    clock.advance({ minutes: 2 });
    expectProblem(await operator.as().get('/nodes'), problems.invalidAdminKey);
    await app.admin.patch(path, { expires_at: null }).expect(200);
    await operator.as().get('/nodes').expect(200);
    const rows = await recorded(app, { subject: operator.id, event: 'admin.operator.updated' });
    expect(rows.map(({ details }) => details.after)).toEqual([
      { scopes: ['nodes'], expires_at: null },
      { scopes: ['nodes'], expires_at },
      { scopes: ['nodes'], expires_at: null },
    ]);
  });

  it.each(['', 'a b', 'x'.repeat(65), 'a\n', '-a', '../a', 'ä', 'a@example.org', 'a:b', '\u212Aelvin', 7, null, ['a']])(
    'answers 400 to the name %p',
    async (name) => {
      expectInvalid(await app.admin.post('/operators', { name, scopes: ['read'] }), '/name');
    },
  );

  it('answers 400 to scopes that are not a list of different scopes', async () => {
    const { id } = await app.operator();
    for (const scopes of [
      [],
      ['root'],
      ['read', 'read'],
      ['Read'],
      'read',
      null,
      { 0: 'read' },
      [null],
      ['__proto__'],
    ]) {
      expectInvalid(await app.admin.post('/operators', { name: newName(), scopes }), '/scopes');
      expectInvalid(await app.admin.patch(`/operators/${id}`, { scopes }), '/scopes');
    }
  });

  it('answers 400 to a list anywhere else than in scopes, and to a new name: it does not change', async () => {
    const { id } = await app.operator();
    expectInvalid(await app.admin.patch(`/operators/${id}`, { name: 'bob' }), '/name');
    expectInvalid(await app.admin.post('/operators', { name: ['a'], scopes: ['read'] }), '/name');
    expectInvalid(await app.admin.post('/operators', { name: 'a', scopes: [['read']] }), '/scopes/0');
    expectInvalid(await app.admin.post('/operators/x/rotate', { scopes: ['read'] }), '/scopes');
    expectInvalid(await app.admin.post('/nodes', { scopes: ['read'] }), '/scopes');
  });
});

describe('the acts of an operator', () => {
  const app = useApp({ variables: { ...UNLEASED, METRICS_PORT: '0' } });

  it('name it in the audit log, the log and the metrics, where the root key is the admin', async () => {
    const operator = await app.operator(['nodes'], 'carol');
    const household = { household_id: randomUUID(), room: 'hall', name: 'lamp' };
    const { body } = await operator.as().post('/nodes', household).expect(201);
    await app.admin.patch(`/nodes/${body.node_id}`, { room: 'attic' }).expect(200);
    expect(await recorded(app, { subject: body.node_id as string })).toMatchObject([
      { event: 'admin.node.updated', actor: { door: 'admin', id: null, name: null } },
      { event: 'admin.node.issued', actor: { door: 'admin', id: operator.id, name: 'operator:carol' } },
    ]);
    for (const actor of ['operator:carol', 'operator:CAROL', operator.id])
      expect(await recorded(app, { actor })).toMatchObject([{ event: 'admin.node.issued' }]);
    expect(await recorded(app, { actor: 'operator:unknown' })).toEqual([]);
    expect((await recorded(app, { actor: 'admin' })).map(({ event }) => event)).toEqual([
      'admin.node.updated',
      'admin.operator.issued',
    ]);
    expect(app.log.events('admin.node.issued')).toMatchObject([{ operator: 'carol', node_id: body.node_id }]);
    const [updated] = app.log.events('admin.node.updated');
    expect(updated?.operator).toBeUndefined();
    const requests = app.log.lines.filter(({ message }) => message === 'request');
    expect(requests.filter(({ operator: named }) => named === 'carol')).toHaveLength(1);
    const countOf = async (actor: string) => (await scrape(app)).value('admin_requests_total', { actor });
    await eventually('its request is counted', async () => (await countOf('operator:carol')) === 1);
    expect(await countOf('admin')).toBeGreaterThan(1);
  });

  it('name it where a credential is explained', async () => {
    const operator = await app.operator(['nodes', 'apps'], 'dave');
    const [node, service] = [await app.node(), await app.service()];
    await operator.as().post(`/nodes/${node.nodeId}/rotate`, { overlap_hours: 0 }).expect(200);
    const explained = async (path: string) =>
      (await app.admin.get(`${path}/explain`).expect(200)).body as Record<string, object[]>;
    expect((await explained(`/nodes/${node.nodeId}`)).previous_key_reasons).toMatchObject([
      { code: 'key_rotated', actor: 'operator:dave' },
      { code: 'overlap_ended', actor: null },
    ]);
    await operator.as().delete(`/app-credentials/${service.appId}`).expect(204);
    await app.admin.delete(`/nodes/${node.nodeId}`).expect(204);
    expect((await explained(`/app-credentials/${service.appId}`)).reasons).toMatchObject([
      { code: 'revoked', actor: 'operator:dave' },
    ]);
    expect((await explained(`/nodes/${node.nodeId}`)).reasons).toMatchObject([{ code: 'revoked', actor: 'admin' }]);
  });

  it('are recorded without keys and digests', async () => {
    const manager = await app.operator(['read', 'operators'], 'erin');
    const added = await manager.as().post('/operators', { name: 'frank', scopes: ['read'] });
    const { operator_id: id, api_key } = added.body as View;
    const rotated = await manager.as().post(`/operators/${id}/rotate`).expect(200);
    const [{ details }] = (await recorded(app, { subject: id, event: 'admin.operator.issued' })) as [Item];
    expect(details).toEqual({ after: { name: 'frank', scopes: ['read'], expires_at: null }, operator: 'erin' });
    const everything = await app.database.query(
      `SELECT query_to_xml('SELECT * FROM ' || quote_ident(table_name), true, true, '')::text AS text
       FROM information_schema.tables WHERE table_schema = 'public' AND table_type = 'BASE TABLE'`,
    );
    const text = JSON.stringify([everything, app.log.lines]);
    expect(text).toContain('frank');
    for (const key of [manager.key, api_key!, (rotated.body as View).api_key!])
      expect(text).not.toContain(key.slice('pa_admin_'.length));
    expect(JSON.stringify(app.log.lines)).not.toContain('pa_admin_');
  });
});
