import type { Response, Test as SupertestRequest } from 'supertest';
import { problems } from '../../src/foundation/problems/problems.js';
import { eventually } from '../../tools/eventually.js';
import { expectProblem } from './expect-problem.js';
import { ADMIN_KEY, PASSWORD, SETTINGS } from './settings.js';
import { User, type TestApp, type Device, type Service, type Tokens } from './test-app.js';
import { expectVerdict, untilVerdict } from './until-verdict.js';

/** Short timeouts, and no cache, so that an outage shows at once. */
export const SHORT_WAITS = {
  variables: { REVOCATION_LEASE_MS: '0' },
  settings: { databaseConnectTimeoutMs: 1_000, databaseStatementTimeoutMs: 1_000, healthTimeoutMs: 1_000 },
};

/**
 * Prepares an outage through a replica with long timeouts, because on a machine that stalls the short ones of the
 * application would refuse it.
 */
export async function withPatientReplica<Result>(
  app: TestApp,
  make: (patient: TestApp) => Promise<Result>,
): Promise<Result> {
  const patient = await app.startReplica({ settings: SETTINGS });
  try {
    return await make(patient);
  } finally {
    await patient.stop();
  }
}

/** Users, nodes and services with valid credentials, who call before, during and after an outage. */
export class Callers {
  private constructor(
    readonly app: TestApp,
    readonly alice: User,
    public tokens: Tokens,
    readonly node: Device,
    readonly service: Service,
  ) {}

  static async of(app: TestApp): Promise<Callers> {
    return withPatientReplica(app, async (patient) => {
      const { id, email, password } = await patient.user();
      const alice = new User(app, id, email, password);
      const tokens = await alice.logsIn(patient);
      return new Callers(app, alice, tokens, await patient.node(), await patient.service('ocr', 'auth'));
    });
  }

  /** Calls every route that needs the database, with valid, wrong and unknown credentials. */
  askEverything(): Promise<Response[]> {
    const { app, alice, tokens, node, service } = this;
    const bearer = `Bearer ${tokens.access_token}`;
    const unknownId = '0199a7c2-5b1e-7cc3-98c4-dc0c0c07398f';
    const { admin } = app;
    return Promise.all([
      app.post('/api/v0/auth/register', { email: 'new@example.org', password: PASSWORD }),
      app.login(alice.email),
      app.login(alice.email, 'not the passphrase'),
      app.login('unknown@example.org'),
      app.refresh(tokens.refresh_token),
      app.logout(tokens.refresh_token),
      app.post('/api/v0/auth/logout').set('Authorization', bearer),
      app.me(tokens.access_token),
      app.get('/api/v0/users/me/sessions').set('Authorization', bearer),
      app.delete('/api/v0/users/me/sessions').set('Authorization', bearer),
      app.delete(`/api/v0/users/me/sessions/${unknownId}`).set('Authorization', bearer),
      app
        .post('/api/v0/users/me/password', { current_password: alice.password, new_password: `new ${alice.password}` })
        .set('Authorization', bearer),
      app.post('/api/v0/users/me/delete', { password: 'not the passphrase' }).set('Authorization', bearer),
      app.get(`/api/v0/users/${alice.id}`).set('Authorization', bearer),
      app.get(`/api/v0/users/${alice.id}`).set(service.headers),
      app.get(`/api/v0/users/${unknownId}`).set('X-Admin-Key', ADMIN_KEY),
      app.validateNode(node.header),
      app.validateNode(`${node.nodeId}:wrong`),
      app.validateApp(service.headers),
      app.validateApp({ ...service.headers, 'X-Platform-App-Key': 'wrong' }),
      ...['/nodes', '/app-credentials', '/users'].map((path) => admin.get(path)),
      ...[`/nodes/${node.nodeId}`, `/app-credentials/${service.appId}`, `/users/${alice.id}`].flatMap((path) => [
        admin.get(path),
        admin.delete(path),
      ]),
      admin.post('/nodes', { household_id: node.householdId, room: 'hall', name: 'lamp' }),
      admin.patch(`/nodes/${node.nodeId}`, { room: 'hall' }),
      admin.post(`/nodes/${node.nodeId}/rotate`),
      admin.post('/app-credentials', { caller: 'ocr', target: 'recipes' }),
      admin.post(`/app-credentials/${service.appId}/rotate`),
      admin.post('/users', { email: 'new@example.org', password: PASSWORD }),
      admin.patch(`/users/${alice.id}`, { is_active: false }),
      admin.get(`/users/${alice.id}/sessions`),
      admin.delete(`/users/${alice.id}/sessions`),
    ]);
  }

  /** Expects 503 on every route that needs the database, and a live process. */
  async expectNoVerdicts(): Promise<void> {
    await this.expectAllUnavailable();
    await this.expectUnready();
  }

  /** Expects 503 on every route that needs a connection of the pool. */
  async expectAllUnavailable(): Promise<void> {
    for (const answer of await this.askEverything()) {
      expectProblem(answer, problems.unavailable);
      expect(answer.text).not.toMatch(/ECONN|terminated|timeout|postgres|sql/i);
    }
  }

  async expectUnready(): Promise<void> {
    // Waits, because the result of a health check is cached for a moment.
    await eventually('it is unready', async () => (await this.app.get('/health')).status === 503);
    const health = await this.app.get('/health');
    expect(health.status).toBe(503);
    expect(health.headers['retry-after']).toBe('2');
    expect(health.body).toMatchObject({ status: 'error', error: { database: { status: 'down' } } });
    expect(JSON.stringify(health.body)).not.toMatch(/ECONN|terminated|timeout|postgres/i);
    await this.app.get('/health/live').expect(200, { status: 'ok' });
  }

  /** Expects that the service has reconnected by itself, and that every credential is as valid as before. */
  async expectRecovered(): Promise<void> {
    const { app, alice, node, service } = this;
    await eventually('the service is healthy again', async () => (await app.get('/health')).status === 200);
    const expectAccepted = async (call: () => SupertestRequest): Promise<unknown> =>
      (await expectVerdict(200, call)).body;
    const expectRefused = async (email: string, password?: string): Promise<void> =>
      expectProblem(await untilVerdict(() => app.login(email, password)), problems.invalidCredentials);
    await expectAccepted(() => app.validateNode(node.header));
    await expectAccepted(() => app.validateApp(service.headers));
    await expectAccepted(() => app.me(this.tokens.access_token));
    await expectAccepted(() => app.login(alice.email));
    await expectRefused(alice.email, 'not the passphrase');
    await expectRefused('new@example.org');
    this.tokens = (await expectAccepted(() => app.refresh(this.tokens.refresh_token))) as Tokens;
  }
}
