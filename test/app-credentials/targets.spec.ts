import { problems } from '../../src/problems/problems.js';
import { APP_KEYS, type AppKeys } from '../../src/app-credentials/app-credentials.service.js';
import { NODE_KEYS, type NodeKeys } from '../../src/nodes/nodes.service.js';
import { expectInvalid, expectProblem } from '../support/expect-problem.js';
import type { Device, Service, User } from '../support/test-app.js';
import { useApp } from '../support/use-app.js';

describe('an app key', () => {
  const app = useApp();
  let alice: User;
  let node: Device;
  let own: Service;
  let foreign: Service;

  beforeAll(async () => {
    [alice, node] = [await app.user(), await app.node()];
    [own, foreign] = [await app.service('recipes', 'auth'), await app.service('recipes', 'ocr')];
  });

  const readsAlice = ({ headers }: Service, by = app) => by.get(`/api/v0/users/${alice.id}`).set(headers);

  it('is refused at the doors of this service when it was minted for another target', async () => {
    await readsAlice(own).expect(200);
    expectProblem(await readsAlice(foreign), problems.invalidAppCredentials);
    await app.validateNode(node.header).set(own.headers).expect(200);
    expectProblem(await app.validateNode(node.header).set(foreign.headers), problems.invalidAppCredentials);
    const reasons = app.log
      .events('app.validation.failed')
      .map(({ reason, called_service }) => [reason, called_service]);
    expect(reasons).toEqual(Array(2).fill(['other_target', 'ocr']));
  });

  it('is refused there also from the cache, after it was accepted for its target', async () => {
    await app.validateApp(foreign.headers, { target: 'ocr' }).expect(200);
    expectProblem(await readsAlice(foreign), problems.invalidAppCredentials);
    expectProblem(await app.validateNode(node.header).set(foreign.headers), problems.invalidAppCredentials);
  });

  it('is refused with 400 in the query of a call with an app credential, where it would not be checked', async () => {
    const answer = await app.get(`/api/v0/users/${alice.id}?target=ocr`).set(own.headers);
    expectInvalid(answer, '');
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
  const app = useApp();
  let node: Device;
  let service: Service;

  beforeAll(async () => {
    [node, service] = [await app.node(), await app.service('recipes', 'ocr')];
  });

  const at = (path: string) => app.post(path).set(service.headers).set('X-API-Key', node.header);
  const validate = (target?: string, body?: object) => {
    const call = app.validateApp(service.headers, body);
    return target === undefined ? call : call.set('X-Platform-Target', target);
  };

  it('is not the body or X-Platform-Target of validate-app, when both agree', async () => {
    await validate(undefined, { target: 'ocr' }).expect(200);
    await validate('ocr').expect(200);
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

  it('is not an empty query', async () => {
    await validate().expect(200);
    await app.post('/internal/validate-app?').set(service.headers).expect(200);
  });

  it.each(['X-Target', 'Target', 'X-Platform-App-Target', 'X-Platform-Targets', 'X-Platform-Caller'])(
    'is refused with 400 in the unknown header %s on every internal route',
    async (name) => {
      expectInvalid(await at('/internal/validate-app').set(name, 'ocr'), '');
      expectInvalid(await app.validateNode(node.header).set(name, 'ocr'), '');
    },
  );

  it('is refused with 400 in X-Platform-Target of other routes, unless it names this service', async () => {
    for (const path of ['/internal/validate-node', '/api/v0/auth/login']) {
      expectInvalid(await app.post(path).set('X-API-Key', node.header).set('X-Platform-Target', 'ocr'), '');
    }
    expectInvalid(await app.get('/api/v0/users/me').set('X-Platform-Target', 'ocr'), '');
    await app.validateNode(node.header).set('X-Platform-Target', 'auth').expect(200);
  });

  it.each([{ Target: 'ocr' }, { targets: 'ocr' }, { target: 'ocr', for: 'ocr' }])(
    'is refused with 400 in the unknown field of %p',
    async (body) => {
      const answer = await validate(undefined, body);
      expect({ status: answer.status, body: answer.body }).toMatchObject({
        status: 400,
        body: { code: 'validation_failed', errors: [{ detail: 'is not a field of this request' }] },
      });
    },
  );

  it('is refused with 400 in any body of validate-node but an empty one', async () => {
    expectInvalid(await app.validateNode(node.header).send({ target: 'ocr' }), '/target');
    expectInvalid(await app.validateNode(node.header).send({ node_id: node.nodeId }), '/node_id');
    await app.validateNode(node.header).send({}).expect(200);
    await app.validateNode(node.header).expect(200);
  });
});
