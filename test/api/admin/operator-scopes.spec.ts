import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { OpenAPIObject } from '@nestjs/swagger';
import type { Test as SupertestRequest } from 'supertest';
import { OPERATOR_SCOPES, type OperatorScope } from '../../../src/foundation/common/names.js';
import { AuditJob } from '../../../src/domain/maintenance/jobs.js';
import { problems } from '../../../src/foundation/problems/problems.js';
import { recorded } from '../../domain/audit/record.js';
import { expectProblem } from '../../support/expect-problem.js';
import { fromRoot } from '../../support/from-root.js';
import { holdRow } from '../../support/row-lock.js';
import { UNLEASED } from '../../support/settings.js';
import type { NamedOperator } from '../../support/test-app.js';
import { useApp } from '../../support/use-app.js';

const app = useApp({ variables: UNLEASED });

interface Route {
  readonly method: 'get' | 'post' | 'put' | 'patch' | 'delete';
  readonly path: string;
  readonly description: string;
}

/** The table of docs/operations/operators.md: a scope, or `any`, and a path below /api/v0/admin. */
const DOCUMENTED = [
  ...readFileSync(fromRoot('docs/operations/operators.md'), 'utf8').matchAll(/^\| `?(\w+)`? \| (`\/.+)$/gm),
].flatMap(([, scope = '', paths = '']) =>
  [...paths.matchAll(/`(\/[^`]+)`/g)].map(([, path = '']) => ({ scope, path })),
);

/** The scopes of which an operator needs one. */
function acceptedOn({ method, path }: Route): readonly OperatorScope[] {
  const documented = DOCUMENTED.find((each) => path === each.path || path.startsWith(`${each.path}/`))?.scope;
  if (documented === 'any') return OPERATOR_SCOPES;
  const resource = OPERATOR_SCOPES.find((scope) => scope === documented);
  const isRead = method === 'get' || path === '/users/search';
  return [...(resource ? [resource] : []), ...(isRead ? (['read'] as const) : [])];
}

describe('the scopes of an operator', () => {
  const { clock } = app;
  let routes: Route[];

  beforeAll(async () => {
    const { paths } = (await app.get('/docs-json').expect(200)).body as OpenAPIObject;
    routes = Object.entries(paths).flatMap(([path, item]) =>
      Object.entries(item as Record<string, { description?: string }>)
        .filter(() => path.startsWith('/api/v0/admin/'))
        .map(([method, { description = '' }]) => ({
          method: method as Route['method'],
          path: path.replace('/api/v0/admin', ''),
          description,
        })),
    );
    expect(routes.length).toBeGreaterThan(25);
  });

  const call = (operator: NamedOperator, { method, path }: Route) => {
    const url = path.replace(/\{\w+\}/g, randomUUID());
    return method === 'get' || method === 'delete' ? operator.as()[method](url) : operator.as()[method](url, {});
  };

  it.each(OPERATOR_SCOPES)('%s opens its own routes, and no other route of the admin door', async (scope) => {
    const operator = await app.operator([scope]);
    let opened = 0;
    for (const route of routes) {
      const accepted = acceptedOn(route);
      const answer = await call(operator, route);
      if (accepted.includes(scope)) {
        opened += 1;
        // The ids are unknown and the bodies empty.
        expect([200, 400, 404]).toContain(answer.status);
      } else {
        expectProblem(answer, { ...problems.missingScope, extension: { scopes: accepted } });
      }
    }
    expect(opened).toBeGreaterThan(4);
  });

  it('are named in the OpenAPI document of each route', () => {
    for (const route of routes) {
      const scopes = acceptedOn(route).map((scope) => `\`${scope}\``);
      expect(route.description).toMatch(new RegExp(`Scope of an operator: ${scopes.join(' or ')}\\.$`));
    }
  });

  it.each([
    ['read', 200],
    ['users', 200],
    ['nodes', 403],
    ['apps', 403],
    ['operators', 403],
  ] as const)('%s: GET /api/v0/users/{id} answers %d', async (scope, status) => {
    const [user, operator] = [await app.user(), await app.operator([scope])];
    const answer = await app.get(`/api/v0/users/${user.id}`).set('X-Admin-Key', operator.key);
    expect(answer.status).toBe(status);
    if (status === 403) expectProblem(answer, { ...problems.missingScope, extension: { scopes: ['users', 'read'] } });
  });

  it('does not make up for a missing scope with another valid credential', async () => {
    const [user, operator] = [await app.user(), await app.operator(['nodes'])];
    const service = await app.service('ocr', 'auth');
    const answer = await app.get(`/api/v0/users/${user.id}`).set(service.headers).set('X-Admin-Key', operator.key);
    expect(answer.status).toBe(403);
  });

  it('changes nothing when the scope is missing', async () => {
    const [node, user, operator] = [await app.node(), await app.user(), await app.operator(['read'])];
    await operator.as().delete(`/nodes/${node.nodeId}`).expect(403);
    await operator.as().patch(`/users/${user.id}`, { is_active: false }).expect(403);
    await app.validateNode(node.header).expect(200);
    await user.logsIn();
  });

  it('are logged and audited when they are missing: one row for each operator and window, which names it', async () => {
    clock.enterNextWindow();
    const [one, two] = [await app.operator(['read']), await app.operator(['nodes'])];
    for (let tried = 0; tried < 3; tried += 1) await one.as().post('/nodes', {}).expect(403);
    await one.as().post('/operators', {}).expect(403);
    await two.as().get('/users').expect(403);
    const refusals = async () => [
      ...(await recorded(app, { event: 'admin.scope.refused', actor: one.id })),
      ...(await recorded(app, { event: 'admin.scope.refused', actor: `operator:${two.name}` })),
    ];
    const rows = await refusals();
    expect(rows).toMatchObject([
      {
        actor: { door: 'admin', id: one.id, name: `operator:${one.name}` },
        subject: one.id,
        count: 4,
        details: { reasons: { nodes: 3, operators: 1 } },
      },
      { actor: { id: two.id, name: `operator:${two.name}` }, count: 1, details: { reasons: { users: 1 } } },
    ]);
    const lines = app.log.events('admin.scope.refused').filter(({ operator }) => operator === one.name);
    expect(lines.map(({ reason }) => reason)).toEqual(['nodes', 'nodes', 'nodes', 'operators']);
    clock.advance({ minutes: 17 });
    await app.nest.get(AuditJob).maintainAuditLog();
    expect(await refusals()).toEqual(rows);
  });
});

describe('an operator that manages operators', () => {
  const { clock } = app;
  const inDays = (days: number): string => new Date(clock.now().getTime() + days * 86_400_000).toISOString();
  const add = (by: NamedOperator, scopes: OperatorScope[], expires_at: string | null = null) =>
    by.as().post('/operators', { name: `made-${randomUUID()}`, scopes, expires_at });

  it('adds operators with its own scopes or fewer', async () => {
    const manager = await app.operator(['read', 'nodes', 'operators']);
    for (const scopes of [['nodes'], ['read', 'nodes', 'operators']] as OperatorScope[][]) {
      const { body } = await add(manager, scopes).expect(201);
      const added = app.asAdmin(body.api_key as string);
      await added.get('/nodes').expect(200);
    }
  });

  it('cannot grant scopes that it lacks', async () => {
    app.clock.enterNextWindow();
    const manager = await app.operator(['nodes', 'operators']);
    const before = await app.database.query('SELECT id FROM operators');
    for (const scopes of [['users'], ['nodes', 'apps'], ['read']] as OperatorScope[][])
      expectProblem(await add(manager, scopes), problems.exceedsOwnRights);
    expect(await app.database.query('SELECT id FROM operators')).toEqual(before);
    const [row] = await recorded(app, { event: 'admin.scope.refused', actor: manager.id });
    expect(row).toMatchObject({ actor: { name: `operator:${manager.name}` }, details: { reasons: { grant: 3 } } });
  });

  it('cannot give a scope that it lacks to another operator, nor to itself', async () => {
    const manager = await app.operator(['nodes', 'operators']);
    const other = await app.operator(['nodes']);
    for (const { id } of [manager, other]) {
      const raise = manager.as().patch(`/operators/${id}`, { scopes: ['nodes', 'users'] });
      expectProblem(await raise, problems.exceedsOwnRights);
      await app.asAdmin(manager.key).get(`/operators/${id}`).expect(200);
    }
    await other.as().get('/users').expect(403);
    await manager.as().get('/users').expect(403);
  });

  it('cannot change, rotate or revoke an operator that has a scope which it lacks', async () => {
    const manager = await app.operator(['nodes', 'operators']);
    const stronger = await app.operator(['users']);
    const path = `/operators/${stronger.id}`;
    expectProblem(await manager.as().patch(path, { scopes: ['nodes'] }), problems.exceedsOwnRights);
    expectProblem(await manager.as().post(`${path}/rotate`), problems.exceedsOwnRights);
    expectProblem(await manager.as().delete(path), problems.exceedsOwnRights);
    await stronger.as().get('/users').expect(200);
    expect((await app.admin.get(path)).body).toMatchObject({ scopes: ['users'], rotated_at: null, revoked_at: null });
  });

  it('cannot make an operator that outlives it, extend its own life, or take the key of one that outlives it', async () => {
    const manager = await app.operator(['nodes', 'operators'], undefined, inDays(1));
    const permanent = await app.operator(['nodes']);
    for (const expiry of [null, inDays(2)])
      expectProblem(await add(manager, ['nodes'], expiry), problems.exceedsOwnRights);
    const extend = manager.as().patch(`/operators/${manager.id}`, { expires_at: inDays(2) });
    expectProblem(await extend, problems.exceedsOwnRights);
    expectProblem(await manager.as().post(`/operators/${permanent.id}/rotate`), problems.exceedsOwnRights);
    await add(manager, ['nodes'], inDays(0.5)).expect(201);
  });

  it('may lower its own scopes, rotate its own key and revoke itself', async () => {
    const manager = await app.operator(['read', 'nodes', 'operators']);
    const path = `/operators/${manager.id}`;
    const before = manager.as();
    await before.patch(path, { scopes: ['nodes', 'operators'] }).expect(200);
    await before.get('/users').expect(403);
    const { body } = await before.post(`${path}/rotate`, { overlap_hours: 0 }).expect(200);
    await before.get('/nodes').expect(401);
    const after = app.asAdmin(body.api_key as string);
    await after.delete(path).expect(204);
    await after.get('/nodes').expect(401);
  });

  /** A change of an operator, and after it, past the door already, a call with which that operator adds another. */
  const changeBefore = async (manager: NamedOperator, change: SupertestRequest, scopes: OperatorScope[]) => {
    const row = await holdRow(app.database, 'operators', manager.id);
    const changing = change.then(({ status }) => status);
    await row.waiting(1);
    const adding = add(manager, scopes).then((answer) => answer);
    await row.waiting(2);
    const made = () => app.database.query('SELECT id FROM operators ORDER BY id');
    const before = await made();
    await row.release();
    const [status, answer] = [await changing, await adding];
    expect(await made()).toEqual(before);
    return { status, answer };
  };

  it.each<[string, (id: string) => SupertestRequest, number]>([
    ['revocation', (id) => app.admin.delete(`/operators/${id}`), 204],
    ['rotation without an overlap', (id) => app.admin.post(`/operators/${id}/rotate`, { overlap_hours: 0 }), 200],
  ])('commits nothing after its %s, also with a call that passed the door before it', async (_, end, expected) => {
    const manager = await app.operator(['operators']);
    const { status, answer } = await changeBefore(manager, end(manager.id), ['operators']);
    expect(status).toBe(expected);
    expectProblem(answer, problems.invalidAdminKey);
  });

  it('answers missing_scope when it lost the scope after it passed the door, and changes nothing', async () => {
    const manager = await app.operator(['nodes', 'operators']);
    const lowering = app.admin.patch(`/operators/${manager.id}`, { scopes: ['nodes'] });
    const { status, answer } = await changeBefore(manager, lowering, ['nodes']);
    expect(status).toBe(200);
    expectProblem(answer, { ...problems.missingScope, extension: { scopes: ['operators'] } });
    const [refused] = await recorded(app, { event: 'admin.scope.refused', actor: manager.id });
    expect(refused).toMatchObject({ details: { reasons: { operators: 1 } } });
  });

  it('is revoked, or revokes, when two revoke each other at the same time: one of them stays', async () => {
    for (let round = 0; round < 5; round += 1) {
      const pair = [await app.operator(['operators']), await app.operator(['operators'])] as const;
      const answers = await Promise.all([
        pair[0].as().delete(`/operators/${pair[1].id}`),
        pair[1].as().delete(`/operators/${pair[0].id}`),
      ]);
      expect(answers.map(({ status }) => status).sort()).toEqual([204, 401]);
    }
  });
});
