import { readFileSync } from 'node:fs';
import type { Response } from 'supertest';
import { problems } from '../../../src/foundation/problems/problems.js';
import { CountedRefusals } from '../../../src/domain/audit/counted-refusals.js';
import { APP_KEYS, type AppKeys } from '../../../src/domain/app-credentials/app-credentials.service.js';
import { NODE_KEYS, type NodeKeys } from '../../../src/domain/nodes/nodes.service.js';
import { recorded } from '../audit/record.js';
import { expectInvalid, expectProblem } from '../../support/expect-problem.js';
import type { Device, Service, User } from '../../support/test-app.js';
import { untilVerdict } from '../../support/until-verdict.js';
import { useApp, useReplica } from '../../support/use-app.js';

const app = useApp();
let ocr: Service;

beforeAll(async () => {
  ocr = await app.service('ocr', 'auth');
});

describe('an app key', () => {
  let alice: User;
  let node: Device;
  let own: Service;
  let foreign: Service;

  beforeAll(async () => {
    [alice, node] = [await app.user(), await app.node()];
    [own, foreign] = [await app.service('recipes', 'auth'), await app.service('recipes', 'ocr')];
  });

  const readsAlice = ({ headers }: Service, by = app) => by.get(`/api/v0/users/${alice.id}`).set(headers);

  it('is refused at the doors of this service when it was issued for another target', async () => {
    await readsAlice(own).expect(200);
    expectProblem(await readsAlice(foreign), problems.invalidAppCredentials);
    await app.validateNode(node.header).set(own.headers).expect(200);
    expectProblem(await app.validateNode(node.header).set(foreign.headers), problems.invalidAppCredentials);
    const refusal = { reason: 'other_target', called_service: 'ocr' };
    expect(app.log.events('app.validation.failed')).toMatchObject([refusal, refusal]);
    // The next ones are judged from the cache.
    await app.validateApp(foreign.headers, { target: 'ocr' }).expect(200);
    expectProblem(await readsAlice(foreign), problems.invalidAppCredentials);
    expectProblem(await app.validateNode(node.header).set(foreign.headers), problems.invalidAppCredentials);
  });

  it('is refused with 400 in the query of a call with an app credential, where it would not be checked', async () => {
    expectInvalid(await app.get(`/api/v0/users/${alice.id}?target=ocr`).set(own.headers), '');
  });

  it('for the service named by SERVICE_NAME is accepted at its doors', async () => {
    const renamed = await app.startReplica({ variables: { SERVICE_NAME: 'ocr' } });
    await readsAlice(foreign, renamed).expect(200);
    expectProblem(await readsAlice(own, renamed), problems.invalidAppCredentials);
    await renamed.stop();
  });

  it('has its last use recorded for the service that accepted it, and not when it was refused', async () => {
    const [used, refused] = [await app.service('tts', 'auth'), await app.service('tts', 'ocr')];
    await readsAlice(used).expect(200);
    await readsAlice(refused).expect(401);
    await app.validateNode(node.header).set(refused.headers).expect(401);
    await app.validateApp(refused.headers, { target: 'mcp' }).expect(401);
    await app.validateApp(refused.headers).set('X-Platform-Target', 'mcp').expect(401);
    await app.nest.get<AppKeys>(APP_KEYS).flushLastUsed();
    await app.nest.get<NodeKeys>(NODE_KEYS).flushLastUsed();
    const explain = async ({ appId }: Service) =>
      (await app.admin.get(`/app-credentials/${appId}/explain`)).body as object;
    expect(await explain(used)).toMatchObject({ last_accepted_for: 'auth', last_accepted_at: expect.any(String) });
    expect(await explain(refused)).toMatchObject({ last_accepted_for: null, last_accepted_at: null });
  });
});

describe('a target in the wrong place', () => {
  let node: Device;
  let service: Service;

  beforeAll(async () => {
    [node, service] = [await app.node(), await app.service(undefined, 'ocr')];
  });

  const at = (path: string) => app.post(path).set(service.headers).set('X-API-Key', node.header);
  const validate = (target?: string, body?: object) => {
    const call = app.validateApp(service.headers, body);
    return target === undefined ? call : call.set('X-Platform-Target', target);
  };

  it('is neither the body nor X-Platform-Target of validate-app, when both agree, nor an empty query', async () => {
    await validate(undefined, { target: 'ocr' }).expect(200);
    await validate('ocr').expect(200);
    await app.post('/internal/validate-app?').set(service.headers).expect(200);
    await validate('ocr', {}).expect(200);
    await validate('ocr', { target: 'ocr' }).expect(200);
    expectProblem(await validate('recipes'), problems.invalidAppCredentials);
    expectProblem(await validate(undefined, { target: 'recipes' }), problems.invalidAppCredentials);
  });

  it('is refused with 400 when body and header differ, whichever of them matches the key', async () => {
    expectInvalid(await validate('ocr', { target: 'recipes' }), '/target');
    expectInvalid(await validate('recipes', { target: 'ocr' }), '/target');
  });

  it.each(['', 'two words', 'a,ocr', 'x'.repeat(101)])('is refused with 400 in the header %p', async (target) => {
    expectInvalid(await validate(target), '');
    expectInvalid(await app.validateNode(node.header).set('X-Platform-Target', target), '');
  });

  it('is refused with 400 when X-Platform-Target is sent twice', async () => {
    const twice = at('/internal/validate-app').set('X-Platform-Target', ['ocr', 'ocr'] as unknown as string);
    expectProblem(await twice, problems.duplicateHeader);
  });

  it.each(['?target=other', '?target=ocr', '?TARGET=ocr', '?a', '?=', '?target[]=ocr', '?%74arget=other'])(
    'is refused with 400 in the query %p on every internal route',
    async (query) => {
      for (const path of ['/internal/validate-app', '/internal/validate-node'])
        expectInvalid(await at(path + query), '');
    },
  );

  it.each(['X-Target', 'Target', 'X-Platform-App-Target', 'X-Platform-Targets', 'X-Platform-Caller'])(
    'is refused with 400 in the unknown header %s on every internal route',
    async (name) => {
      expectInvalid(await at('/internal/validate-app').set(name, 'ocr'), '');
      expectInvalid(await app.validateNode(node.header).set(name, 'ocr'), '');
    },
  );

  it('is refused with 400 in X-Platform-Target of other routes, unless it names this service', async () => {
    for (const path of ['/internal/validate-user', '/api/v0/auth/login']) {
      expectInvalid(await app.post(path).set('X-API-Key', node.header).set('X-Platform-Target', 'ocr'), '');
    }
    expectInvalid(await app.get('/api/v0/users/me').set('X-Platform-Target', 'ocr'), '');
    await app.validateNode(node.header).set('X-Platform-Target', 'auth').expect(200);
  });

  it.each(['Documents', 'two words', 'a,b', 'a'.repeat(65)])(
    'is refused with 400 in X-Platform-Scope %p',
    async (scope) => {
      expectInvalid(await app.validateApp(service.headers).set('X-Platform-Scope', scope), '');
    },
  );

  it('is refused with 400 in X-Platform-Scope of other routes, where it would not be checked', async () => {
    for (const path of ['/internal/validate-node', '/internal/changes', '/api/v0/auth/login'])
      expectInvalid(await at(path).set('X-Platform-Scope', 'documents:read'), '');
  });

  it.each([{ Target: 'ocr' }, { targets: 'ocr' }, { target: 'ocr', for: 'ocr' }])(
    'is refused with 400 in the unknown field of %p',
    async (body) => {
      const answer = await validate(undefined, body).expect(400);
      const errors = [{ detail: 'is not a field of this request' }];
      expect(answer.body).toMatchObject({ code: 'validation_failed', errors });
    },
  );

  it('is refused with 400 in any body of validate-node but an empty one', async () => {
    expectInvalid(await app.validateNode(node.header).send({ target: 'ocr' }), '/target');
    expectInvalid(await app.validateNode(node.header).send({ node_id: node.nodeId }), '/node_id');
    await app.validateNode(node.header).send({}).expect(200);
    await app.validateNode(node.header).expect(200);
  });
});

describe('a node with targets', () => {
  const replica = useReplica(app);
  const targets = ['ocr', 'speech'];

  const restricted = async (): Promise<Device> => {
    const node = await app.node();
    const { body } = await app.admin.patch(`/nodes/${node.nodeId}`, { targets }).expect(200);
    expect(body).toMatchObject({ node_id: node.nodeId, targets });
    return node;
  };
  const at = (node: Device, target: string, by = app) => by.validateNode(node.header).set('X-Platform-Target', target);

  it('is accepted at its targets only, and refused when the service does not name itself', async () => {
    app.clock.enterNextWindow();
    const node = await restricted();
    for (const by of [app, replica, app]) {
      const { body } = await at(node, 'speech', by).expect(200);
      expect(body).toEqual({ valid: true, node_id: node.nodeId, household_id: node.householdId, targets });
      expectProblem(await at(node, 'recipes', by), problems.invalidNodeCredentials);
      expectProblem(await by.validateNode(node.header), problems.invalidNodeCredentials);
    }
    const [first] = app.log.events('node.validation.failed');
    expect(first).toMatchObject({ reason: 'target', node_id: node.nodeId, called_service: 'recipes' });
    for (const by of [app, replica]) await by.nest.get(CountedRefusals).flush();
    expect(await recorded(app, { subject: node.nodeId, event: 'node.validation.failed' })).toMatchObject([
      { actor: { door: 'node', id: node.nodeId }, count: 6, details: { reasons: { target: 6 } } },
    ]);
  });

  it('has its refusals in the audit log also when the service stops right after them', async () => {
    const node = await restricted();
    const other = await app.startReplica();
    expectProblem(await at(node, 'recipes', other), problems.invalidNodeCredentials);
    await other.stop();
    expect(await recorded(app, { subject: node.nodeId, event: 'node.validation.failed' })).toHaveLength(1);
  });

  it('keeps its previous key until the new one is accepted somewhere', async () => {
    const node = await restricted();
    const { body } = await app.admin.post(`/nodes/${node.nodeId}/rotate`).expect(200);
    const rotated = { ...node, header: `${node.nodeId}:${(body as { api_key: string }).api_key}` };
    expectProblem(await at(rotated, 'recipes'), problems.invalidNodeCredentials);
    expectProblem(await app.validateNode(rotated.header), problems.invalidNodeCredentials);
    await at(node, 'speech').expect(200);
    await at(rotated, 'speech').expect(200);
    expectProblem(await at(node, 'speech'), problems.invalidNodeCredentials);
  });

  it('is refused by a gateway, and to a service with a key of its own, for another service and for none', async () => {
    const node = await restricted();
    expectProblem(await app.validateNode(node.header).set(ocr.headers), problems.invalidNodeCredentials);
    await at(node, 'ocr').set(ocr.headers).expect(200);
    const authorize = () => app.get('/internal/authorize/node/x').set('X-API-Key', node.header);
    await authorize().set('X-Platform-Target', 'ocr').expect(200);
    expectProblem(await authorize().set('X-Platform-Target', 'recipes'), problems.invalidNodeCredentials);
    expectProblem(await authorize(), problems.invalidNodeCredentials);
  });

  it('is refused everywhere else once the change of its targets was answered', async () => {
    const node = await app.node();
    for (const by of [app, replica]) await at(node, 'recipes', by).expect(200);
    await app.admin.patch(`/nodes/${node.nodeId}`, { targets }).expect(200);
    for (const by of [app, replica]) {
      expectProblem(await at(node, 'recipes', by), problems.invalidNodeCredentials);
      await at(node, 'ocr', by).expect(200);
    }
    await app.admin.patch(`/nodes/${node.nodeId}`, { targets: null }).expect(200);
    for (const by of [app, replica])
      expect((await at(node, 'recipes', by).expect(200)).body).not.toHaveProperty('targets');
  });

  it('is explained with the reason target, for the service that is named', async () => {
    const { nodeId } = await restricted();
    const explain = async (query: string) =>
      (await app.admin.get(`/nodes/${nodeId}/explain${query}`).expect(200)).body as object;
    expect(await explain('?target=ocr')).toMatchObject({ accepted_now: true, reasons: [] });
    for (const query of ['?target=recipes', ''])
      expect(await explain(query)).toMatchObject({ accepted_now: false, reasons: [{ code: 'target', since: null }] });
  });

  it('gets the default of NODE_TARGETS when its registration names none', async () => {
    const node = await app.node();
    const careful = await app.startReplica({ variables: { NODE_TARGETS: 'ocr, speech' } });
    const place = { household_id: node.householdId, room: 'a', name: 'b' };
    for (const [sent, expected] of [
      [undefined, ['ocr', 'speech']],
      [null, null],
      [['recipes'], ['recipes']],
    ]) {
      const { body } = await careful.admin.post('/nodes', { ...place, targets: sent }).expect(201);
      expect((body as { targets: unknown }).targets).toEqual(expected);
    }
    await careful.stop();
  });

  const MANY = Array.from({ length: 33 }, (_, index) => `service-${index}`);

  it.each([[[]], [['ocr', 'ocr']], [['two words']], [MANY], ['ocr'], [[['ocr']]], [[7]], [{}]])(
    'is not registered with the targets %j',
    async (bad) => {
      const fields = { household_id: (await app.node()).householdId, room: 'a', name: 'b' };
      const { body } = await app.admin.post('/nodes', { ...fields, targets: bad }).expect(400);
      expect(body).toMatchObject({ code: 'validation_failed' });
      await app.admin.post('/nodes', { ...fields, targets: MANY.slice(1) }).expect(201);
    },
  );
});

describe('an app credential with scopes', () => {
  const replica = useReplica(app);
  const scopes = ['documents:read', 'pages:count'];

  const restricted = async (): Promise<Service> => {
    const service = await app.service(undefined, 'ocr');
    const { body } = await app.admin.patch(`/app-credentials/${service.appId}`, { scopes }).expect(200);
    expect(body).toMatchObject({ app_id: service.appId, scopes });
    return service;
  };
  const asks = ({ headers }: Service, scope: string, by = app) =>
    by.validateApp(headers, { target: 'ocr' }).set('X-Platform-Scope', scope);
  const expectMissing = (answer: Response, scope: string): void => {
    expectProblem(answer, { ...problems.missingScope, extension: { scopes: [scope] } });
  };

  it('is a 403 that names the scope which it lacks, and a 401 for a wrong key', async () => {
    const service = await restricted();
    for (const by of [app, replica, app]) {
      const { body } = await asks(service, 'documents:read', by).expect(200);
      expect(body).toEqual({ valid: true, app_id: service.appId, caller: service.caller, target: 'ocr', scopes });
      expectMissing(await asks(service, 'documents:write', by), 'documents:write');
    }
    await app.validateApp(service.headers).expect(200);
    const wrong = { ...service, headers: { ...service.headers, 'X-Platform-App-Key': 'x' } };
    expectProblem(await asks(wrong, 'documents:read'), problems.invalidAppCredentials);
    const missing = app.log.events('app.validation.failed').filter(({ reason }) => reason === 'missing_scope');
    expect(missing).toMatchObject([{ app_id: service.appId }, { app_id: service.appId }]);
  });

  it('has the same target and scopes with both keys of a rotation', async () => {
    const service = await restricted();
    const { body } = await app.admin.post(`/app-credentials/${service.appId}/rotate`).expect(200);
    const { app_key } = body as { app_key: string };
    const rotated = { ...service, headers: { ...service.headers, 'X-Platform-App-Key': app_key } };
    for (const key of [service, rotated]) {
      expectProblem(await app.validateApp(key.headers, { target: 'mcp' }), problems.invalidAppCredentials);
      expectMissing(await asks(key, 'documents:write'), 'documents:write');
      await asks(key, 'documents:read').expect(200);
    }
  });

  it('is judged for gateways alike, and a scope that is none is a mistake of the gateway', async () => {
    const { headers } = await restricted();
    const authorize = (scope: string) =>
      app.get('/internal/authorize/app').set({ ...headers, 'X-Platform-Target': 'ocr', 'X-Platform-Scope': scope });
    await authorize('pages:count').expect(200);
    const challenge = 'PlatformApp realm="platform-auth", error="insufficient_scope", scope="documents:write"';
    const missing = { ...problems.missingScope, challenge, extension: { scopes: ['documents:write'] } };
    expectProblem(await authorize('documents:write'), missing);
    const unnamed = await app.get('/internal/authorize/app').set({ ...headers, 'X-Platform-Target': 'ocr' });
    const unscoped = 'PlatformApp realm="platform-auth", error="insufficient_scope"';
    expectProblem(unnamed, { ...problems.missingScope, challenge: unscoped, extension: { scopes: [] } });
    expectProblem(await authorize('Two Words'), problems.gatewayMisconfigured);
  });

  it('loses a scope everywhere, with the same key, once the change was answered', async () => {
    const service = await restricted();
    for (const by of [app, replica]) await asks(service, 'documents:read', by).expect(200);
    await app.admin.patch(`/app-credentials/${service.appId}`, { scopes: ['pages:count'] }).expect(200);
    for (const by of [app, replica]) {
      expectMissing(await asks(service, 'documents:read', by), 'documents:read');
      await asks(service, 'pages:count', by).expect(200);
    }
  });

  it('shows when each scope was last asked for, by callers and in reports of its target', async () => {
    const service = await restricted();
    const { headers } = await app.service(service.caller, 'auth');
    await asks(service, 'documents:read').expect(200);
    await app.validateApp(service.headers).expect(200);
    const report = (scope: string) => ({ used: [{ kind: 'app', id: service.appId, ago_ms: 1, scope }] });
    await untilVerdict(() => app.post('/internal/changes', report('pages:count')).set(ocr.headers));
    await untilVerdict(() => app.post('/internal/changes', report('forged')).set(headers));
    await app.nest.get<AppKeys>(APP_KEYS).flushLastUsed();
    const { body } = await app.admin.get(`/app-credentials/${service.appId}`).expect(200);
    expect((body as { scope_uses: unknown }).scope_uses).toEqual([
      { scope: 'documents:read', last_used_at: expect.any(String) as string },
      { scope: 'pages:count', last_used_at: expect.any(String) as string },
    ]);
  });

  it('shows a scope that was never asked for as not used, also one named like what every object inherits', async () => {
    const { appId } = await app.service(undefined, 'ocr', ['constructor']);
    const { body } = await app.admin.get(`/app-credentials/${appId}`).expect(200);
    expect((body as { scope_uses: unknown }).scope_uses).toEqual([{ scope: 'constructor', last_used_at: null }]);
  });

  it('is explained with the reason missing_scope', async () => {
    const { appId } = await restricted();
    const explain = async (scope: string) =>
      (await app.admin.get(`/app-credentials/${appId}/explain?target=ocr&scope=${scope}`).expect(200)).body as object;
    expect(await explain('pages:count')).toMatchObject({ accepted_now: true });
    const missing = { accepted_now: false, reasons: [{ code: 'missing_scope' }] };
    expect(await explain('documents:write')).toMatchObject(missing);
  });

  it.each([[[]], [['documents:read', 'documents:read']], [['Documents']], ['documents:read'], [undefined]])(
    'is not changed to the scopes %j',
    async (bad) => {
      const { appId } = await restricted();
      expectInvalid(await app.admin.patch(`/app-credentials/${appId}`, { scopes: bad }), '/scopes');
      const many = Array.from({ length: 32 }, (_, index) => `scope:${index}`);
      await app.admin.patch(`/app-credentials/${appId}`, { scopes: many }).expect(200);
    },
  );
});

interface Restriction {
  readonly targets?: string[] | null;
  readonly named?: string | null;
  readonly scopes?: string[] | null;
  readonly asked?: string | null;
  readonly accepted: boolean;
}

/** The verifiers run the same data. */
const restrictions = JSON.parse(readFileSync('clients/conformance/restrictions.json', 'utf8')) as {
  nodes: Restriction[];
  apps: Restriction[];
};

describe('a restriction of the conformance suite', () => {
  it.each(restrictions.nodes)('holds for a node: %j', async ({ targets, named, accepted }) => {
    const { nodeId, header } = await app.node();
    await app.admin.patch(`/nodes/${nodeId}`, { targets }).expect(200);
    const target = named ? { 'X-Platform-Target': named } : {};
    const status = accepted ? 200 : 401;
    expect((await app.validateNode(header).set(target)).status).toBe(status);
    const asGateway = app.get('/internal/authorize/node').set({ 'X-API-Key': header, ...target });
    expect((await asGateway).status).toBe(status);
    const explained = await app.admin.get(`/nodes/${nodeId}/explain${named ? `?target=${named}` : ''}`);
    expect(explained.body).toMatchObject({ accepted_now: accepted });
  });

  it.each(restrictions.apps)('holds for an app: %j', async ({ scopes, asked, accepted }) => {
    const { appId, headers } = await app.service(undefined, 'recipes');
    await app.admin.patch(`/app-credentials/${appId}`, { scopes }).expect(200);
    const scope = asked ? { 'X-Platform-Scope': asked } : {};
    const status = accepted ? 200 : 403;
    expect((await app.validateApp(headers, { target: 'recipes' }).set(scope)).status).toBe(status);
    const asGateway = app.get('/internal/authorize/app').set({ ...headers, 'X-Platform-Target': 'recipes', ...scope });
    // The service behind a gateway cannot compare scopes itself.
    expect((await asGateway).status).toBe(asked || scopes === null ? status : 403);
    const query = `target=recipes${asked ? `&scope=${asked}` : ''}`;
    const explained = await app.admin.get(`/app-credentials/${appId}/explain?${query}`);
    expect(explained.body).toMatchObject({ accepted_now: accepted });
  });
});
