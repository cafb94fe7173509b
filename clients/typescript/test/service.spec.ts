import { eventually } from '../../../tools/eventually.js';
import { Home } from '../../../test/support/home.js';
import { SECRET_KEY } from '../../../test/support/settings.js';
import { TcpProxy } from '../../../tools/tcp-proxy.js';
import { TestApp } from '../../../test/support/test-app.js';
import { APP_KEYS, type AppKeys } from '../../../src/domain/app-credentials/app-credentials.service.js';
import { problems, toProblemBody } from '../../../src/foundation/problems/problems.js';
import { RefusedError } from '../src/errors.js';
import { toSettings } from '../src/options.js';
import {
  createMissingRole,
  createMissingScope,
  DUPLICATE_HEADER,
  MISSING_TOKEN,
  NOT_A_MEMBER,
  REFUSALS,
} from '../src/refusals.js';
import { createSystemRuntime } from '../src/runtime.js';
import { VerifierCore } from '../src/verifier-core.js';

/** Long enough that a slow machine does not lose the lease between two requests. */
const LEASE = { REVOCATION_LEASE_MS: '1000' };
const EMPTY = { headers: {} };

describe('a refusal of a verifier', () => {
  it.each([
    [REFUSALS.app, problems.invalidAppCredentials],
    [REFUSALS.node, problems.invalidNodeCredentials],
    [REFUSALS.user, problems.invalidAccessToken],
    [MISSING_TOKEN, problems.missingAccessToken],
    [DUPLICATE_HEADER, problems.duplicateHeader],
    [NOT_A_MEMBER, problems.notFound],
    [createMissingRole('admin'), problems.missingRole],
    [createMissingScope('nodes'), { ...problems.missingScope, extension: { scopes: ['nodes'] } }],
  ])('is the problem that the service answers with: $code', (refusal, problem) => {
    const { body, headers } = new RefusedError(refusal).toResponse('request-1');
    expect(body).toEqual(toProblemBody(problem, 'request-1'));
    expect(headers['WWW-Authenticate']).toBe(problem.challenge);
  });
});

describe('a verifier before the service', () => {
  let app: TestApp;
  let proxy: TcpProxy;
  let verifier: VerifierCore;
  let asked = 0;
  const logged: string[] = [];

  beforeAll(async () => {
    app = await TestApp.start({ variables: LEASE });
    const { port } = app.server.address() as { port: number };
    proxy = await TcpProxy.before(`http://127.0.0.1:${port}`);
    const own = await app.service('recipes', 'auth');
    const settings = toSettings({
      url: proxy.url,
      appId: own.appId,
      appKey: own.appKey,
      serviceName: 'recipes',
      secretKey: SECRET_KEY,
      logger: { warn: (event) => void logged.push(event) },
    });
    const runtime = createSystemRuntime();
    const { transport } = runtime;
    verifier = new VerifierCore(settings, {
      ...runtime,
      transport: {
        send: (request, signal) => {
          if (!request.isPoll) asked += 1;
          return transport.send(request, signal);
        },
        close: () => transport.close(),
      },
    });
  });

  afterAll(async () => {
    verifier.close();
    await proxy.close();
    await app.stop();
  });

  const verifyNode = (header: string) => verifier.verifyNode({ headers: { 'x-api-key': header } });
  const verifyUser = (token: string) => verifier.verifyUser({ headers: { authorization: `Bearer ${token}` } });
  const verifyApp = (headers: Record<string, string>) =>
    verifier.verifyApp({
      headers: Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value])),
    });

  const codeOf = (verdict: Promise<unknown>): Promise<unknown> =>
    verdict.then(
      () => 'accepted',
      (error: unknown) => (error as { code: unknown }).code,
    );

  /** Repeats until there is a verdict, because on a machine under load the verifier may answer 503. */
  async function verdictOf(verify: () => Promise<unknown>): Promise<unknown> {
    let code: unknown;
    await eventually('there is a verdict', async () => (code = await codeOf(verify())) !== 'unavailable');
    return code;
  }

  /** The first principal, as {@link verdictOf}. */
  async function principalOf<Principal>(verify: () => Promise<Principal>): Promise<Principal> {
    let principal: Principal | undefined;
    expect(await verdictOf(async () => (principal = await verify()))).toBe('accepted');
    return principal!;
  }

  /** Verifies until memory answers. */
  async function untilRemembered(verify: () => Promise<unknown>): Promise<void> {
    await eventually('it is remembered', async () => {
      const before = asked;
      return (await codeOf(verify())) === 'accepted' && asked === before;
    });
  }

  it('has the principals that the service has', async () => {
    const caller = await app.service('meals', 'recipes');
    const node = await app.node();
    const user = await app.user();
    const { access_token: token } = await user.logsIn();
    for (const verify of [() => verifyApp(caller.headers), () => verifyNode(node.header), () => verifyUser(token)]) {
      await untilRemembered(verify);
    }
    expect(await principalOf(() => verifyApp(caller.headers))).toEqual({
      door: 'app',
      appId: caller.appId,
      caller: 'meals',
      target: 'recipes',
    });
    expect(await principalOf(() => verifyNode(node.header))).toEqual({
      door: 'node',
      nodeId: node.nodeId,
      householdId: node.householdId,
    });
    expect(await principalOf(() => verifyUser(token))).toMatchObject({
      door: 'user',
      userId: user.id,
      email: user.email,
      amr: ['pwd'],
    });
  });

  it('refuses what the service refuses', async () => {
    const other = await app.service('meals', 'ocr');
    const { nodeId } = await app.node();
    expect(await verdictOf(() => verifyApp(other.headers))).toBe('invalid_app_credentials');
    expect(await verdictOf(() => verifyNode(`${nodeId}:wrong`))).toBe('invalid_node_credentials');
    expect(await verdictOf(() => verifyUser('eyJhbGciOiJIUzI1NiJ9.e30.x'))).toBe('invalid_access_token');
    expect(await verdictOf(() => verifier.verifyUser(EMPTY))).toBe('missing_access_token');
  });

  it('refuses a remembered node as soon as the call that revoked it has answered', async () => {
    const node = await app.node();
    await untilRemembered(() => verifyNode(node.header));
    await app.admin.delete(`/nodes/${node.nodeId}`).expect(204);
    expect(await verdictOf(() => verifyNode(node.header))).toBe('invalid_node_credentials');
  });

  it('refuses a remembered node as soon as the call that took this service from its targets has answered', async () => {
    const node = await app.node();
    await untilRemembered(() => verifyNode(node.header));
    await app.admin.patch(`/nodes/${node.nodeId}`, { targets: ['ocr'] }).expect(200);
    expect(await verdictOf(() => verifyNode(node.header))).toBe('invalid_node_credentials');
    await app.admin.patch(`/nodes/${node.nodeId}`, { targets: ['ocr', 'recipes'] }).expect(200);
    expect(await verdictOf(() => verifyNode(node.header))).toBe('accepted');
  });

  it('refuses an app without the scope that the route needs, and tells the service which scope was needed', async () => {
    const created = await app.admin.post('/app-credentials', {
      caller: 'reader',
      target: 'recipes',
      scopes: ['recipes:read'],
    });
    const { app_id: appId, app_key: appKey } = created.body as Record<string, string>;
    const request = { headers: { 'x-platform-app-id': appId, 'x-platform-app-key': appKey } };
    const verify = (scope: string) => () => verifier.verifyApp(request, { scope });
    expect(await principalOf(verify('recipes:read'))).toMatchObject({ caller: 'reader', scopes: ['recipes:read'] });
    expect(await verdictOf(verify('recipes:write'))).toBe('missing_scope');
    await eventually('the service knows the scope', async () => {
      await app.nest.get<AppKeys>(APP_KEYS, { strict: false }).flushLastUsed();
      const { body } = await app.admin.get(`/app-credentials/${appId}`);
      const [use] = (body as { scope_uses: { last_used_at: string | null }[] }).scope_uses;
      return use?.last_used_at !== null;
    });
  });

  it('refuses a remembered app as soon as the call that revoked it has answered', async () => {
    const caller = await app.service();
    await untilRemembered(() => verifyApp(caller.headers));
    await app.admin.delete(`/app-credentials/${caller.appId}`).expect(204);
    expect(await verdictOf(() => verifyApp(caller.headers))).toBe('invalid_app_credentials');
  });

  it('refuses a remembered token as soon as the logout has answered', async () => {
    const { access_token: token, refresh_token: refreshToken } = await (await app.user()).logsIn();
    await untilRemembered(() => verifyUser(token));
    await app.logout(refreshToken).expect(204);
    expect(await verdictOf(() => verifyUser(token))).toBe('invalid_access_token');
  });

  it('refuses every token of a user who was disabled', async () => {
    const user = await app.user();
    const tokens = [await user.logsIn(), await user.logsIn()].map((tokens) => tokens.access_token);
    for (const token of tokens) await untilRemembered(() => verifyUser(token));
    await app.admin.patch(`/users/${user.id}`, { is_active: false }).expect(200);
    for (const token of tokens) expect(await verdictOf(() => verifyUser(token))).toBe('invalid_access_token');
  });

  it('refuses a remembered member as soon as the call that demoted or removed the person has answered', async () => {
    const home = await Home.of(app);
    const other = await home.secondAdmin();
    const verify = (role?: 'admin') => () =>
      verifier.verifyMember(
        { headers: { authorization: `Bearer ${other.tokens.access_token}` } },
        { household: home.id, role },
      );
    await untilRemembered(verify('admin'));
    await home.setRole(home.admin, other, 'member').expect(200);
    expect(await verdictOf(verify('admin'))).toBe('missing_role');
    await untilRemembered(verify());
    await home.remove(home.admin, other).expect(204);
    expect(await verdictOf(verify())).toBe('not_found');
    const stays = await home.member();
    const verifyStaying = () =>
      verifier.verifyMember(
        { headers: { authorization: `Bearer ${stays.tokens.access_token}` } },
        { household: home.id },
      );
    await untilRemembered(verifyStaying);
    await home.deleteBy(home.admin).expect(204);
    expect(await verdictOf(verifyStaying)).toBe('not_found');
  });

  it('does not remember a key during the overlap of its rotation', async () => {
    const node = await app.node();
    const { body } = await app.admin.post(`/nodes/${node.nodeId}/rotate`).expect((answer) => answer.ok);
    for (let use = 0; use < 3; use += 1) {
      const before = asked;
      expect(await verdictOf(() => verifyNode(node.header))).toBe('accepted');
      expect(asked).toBeGreaterThan(before);
    }
    // The first use of the new key ends the overlap.
    await untilRemembered(() => verifyNode(`${node.nodeId}:${body.api_key as string}`));
  });

  it('refuses a node that was revoked while the verifier was cut off, and answers 503 meanwhile', async () => {
    const [node, good] = [await app.node(), await app.node()];
    for (const { header } of [node, good]) await untilRemembered(() => verifyNode(header));
    await proxy.close();
    await app.admin.delete(`/nodes/${node.nodeId}`).expect(204);
    expect(await codeOf(verifyNode(node.header))).toBe('unavailable');
    expect(await codeOf(verifyNode(good.header))).toBe('unavailable');
    await proxy.open();
    await eventually('the other node is accepted', async () => (await codeOf(verifyNode(good.header))) === 'accepted');
    expect(await verdictOf(() => verifyNode(node.header))).toBe('invalid_node_credentials');
  });

  it('finds nothing wrong with its configuration', () => {
    expect(logged).not.toContain('verifier_misconfigured');
  });
});
