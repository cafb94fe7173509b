import type { Server } from 'node:http';
import request from 'supertest';
import { InvalidEnvironmentError, parseEnvironment } from '../../src/config/environment.js';
import { problems } from '../../src/problems/problems.js';
import { expectProblem } from '../support/expect-problem.js';
import { ADMIN_KEY, SECRET_KEY } from '../support/settings.js';
import type { Device, Service } from '../support/test-app.js';
import { useApp } from '../support/use-app.js';

describe('INTERNAL_PORT', () => {
  const app = useApp({ variables: { INTERNAL_PORT: '0' } });
  let internal: Server;
  let node: Device;
  let own: Service;

  beforeAll(async () => {
    internal = app.internal!;
    const admin = { 'X-Admin-Key': ADMIN_KEY };
    const home = { household_id: '5b1c7a9e-0d35-4c8e-9a57-6f0b1f4f2a10', room: 'hall', name: 'lamp' };
    const made = await request(internal).post('/api/v0/admin/nodes').set(admin).send(home).expect(201);
    const { node_id, api_key } = made.body as Record<string, string>;
    node = { nodeId: node_id!, apiKey: api_key!, header: `${node_id}:${api_key}`, householdId: home.household_id };
    const pair = { caller: 'ocr', target: 'auth' };
    const minted = await request(internal).post('/admin/app-credentials').set(admin).send(pair).expect(201);
    const { app_id, app_key } = minted.body as Record<string, string>;
    const headers = { 'X-Platform-App-Id': app_id!, 'X-Platform-App-Key': app_key! };
    own = { appId: app_id!, appKey: app_key!, ...pair, headers };
  });

  const everything = () => ({ 'X-Admin-Key': ADMIN_KEY, 'X-API-Key': node.header, ...own.headers });

  it.each([
    '/internal/validate-app',
    '/internal/validate-node',
    '/internal',
    '/internal/nowhere',
    '/api/v0/admin/nodes',
    '/api/v0/admin/users?limit=1',
    '/api/v0/admin',
    '/admin/nodes',
    '/admin/users?limit=1',
  ])('answers 404 on the public port, for every method, to %s', async (path) => {
    for (const method of ['get', 'post', 'put', 'options'] as const) {
      const answer = await request(app.server)[method](path).set(everything());
      expectProblem(answer, problems.notFound);
      expect(answer.headers).not.toHaveProperty('allow');
    }
  });

  it('serves these routes on the internal port', async () => {
    await request(internal).post('/internal/validate-node').set('X-API-Key', node.header).expect(200);
    await request(internal).post('/internal/validate-app').set(own.headers).expect(200);
    await request(internal).get('/admin/nodes').set('X-Admin-Key', ADMIN_KEY).expect(200);
    expectProblem(await request(internal).get('/internal/validate-app'), problems.methodNotAllowed);
  });

  it('serves all other routes on both ports', async () => {
    const user = await app.user();
    for (const server of [app.server, internal]) {
      await request(server).get('/health').expect(200);
      await request(server).get('/health/live').expect(200);
      await request(server).get('/docs').expect(200);
      await request(server).get(`/api/v0/users/${user.id}`).set(own.headers).expect(200);
    }
  });

  it('is recognised by the connection, not by request headers', async () => {
    const spoofed = request(app.server).post('/internal/validate-node').set('X-API-Key', node.header);
    const { port } = internal.address() as { port: number };
    expectProblem(await spoofed.set('Host', `127.0.0.1:${port}`).set('X-Forwarded-Port', `${port}`), problems.notFound);
  });

  it('must differ from the other ports, and is off by default', () => {
    const variables = { SECRET_KEY, DATABASE_URL: app.database.url, PORT: '8000' };
    expect(parseEnvironment(variables).internalPort).toBeUndefined();
    expect(parseEnvironment({ ...variables, INTERNAL_PORT: '8001' }).internalPort).toBe(8_001);
    const same = (more: object) => () => parseEnvironment({ ...variables, ...more });
    expect(same({ INTERNAL_PORT: '8000' })).toThrow(InvalidEnvironmentError);
    expect(same({ INTERNAL_PORT: '8000' })).toThrow('INTERNAL_PORT must differ from PORT');
    expect(same({ INTERNAL_PORT: '9', METRICS_PORT: '9' })).toThrow('METRICS_PORT must differ from INTERNAL_PORT');
  });
});
