import { TestApp } from '../../../test/support/test-app.js';
import { toSettings } from '../src/options.js';
import { createSystemRuntime } from '../src/runtime.js';
import { VerifierCore } from '../src/verifier-core.js';

const JWT_ISSUER = 'https://auth.example.org';

describe('a user who is passed on, before the service', () => {
  let app: TestApp;
  const verifiers = new Map<string, VerifierCore>();

  beforeAll(async () => {
    app = await TestApp.start({
      variables: { REVOCATION_LEASE_MS: '1000', ACCESS_TOKEN_ALGORITHM: 'ES256', JWT_ISSUER },
    });
    const { port } = app.server.address() as { port: number };
    const url = `http://127.0.0.1:${port}`;
    for (const serviceName of ['web', 'recipes', 'ocr']) {
      const { appId, appKey } = await app.service(serviceName, 'auth');
      const own = { url, appId, appKey, serviceName, jwksUrl: `${url}/.well-known/jwks.json`, issuer: JWT_ISSUER };
      const settings = toSettings({ ...own, logger: { warn: () => undefined } });
      verifiers.set(serviceName, new VerifierCore(settings, createSystemRuntime()));
    }
  });

  afterAll(async () => {
    for (const verifier of verifiers.values()) verifier.close();
    await app.stop();
  });

  const at = (service: string): VerifierCore => verifiers.get(service)!;
  const bearer = (token: string) => ({ headers: { authorization: `Bearer ${token}` } });
  const allow = async (caller: string, target: string, scopes: string[]): Promise<string> => {
    const { body } = await app.admin.post('/app-credentials', { caller, target, scopes, for_users: true }).expect(201);
    return body.app_id as string;
  };
  const codeOf = (verdict: Promise<unknown>): Promise<unknown> =>
    verdict.then(
      () => 'accepted',
      (error: unknown) => (error as { code?: unknown }).code ?? error,
    );

  /** The token of a user, at web, and what web and recipes pass on. */
  async function passOn() {
    const user = await app.user();
    const { access_token: own } = await user.logsIn();
    const forRecipes = await at('web').tokenFor(bearer(own), 'recipes');
    const forOcr = await at('recipes').tokenFor(bearer(forRecipes), 'ocr', { scope: 'documents:read' });
    return { user, own, forRecipes, forOcr };
  }

  it('is accepted at each service for the scopes of its pair, and nowhere else', async () => {
    const [first, second] = [
      await allow('web', 'recipes', ['recipes:read']),
      await allow('recipes', 'ocr', ['documents:read', 'documents:write']),
    ];
    const { user, own, forRecipes, forOcr } = await passOn();
    expect(
      await at('recipes').verifyUser(bearer(forRecipes), { delegated: true, scope: 'recipes:read' }),
    ).toMatchObject({ userId: user.id, caller: 'web', scopes: ['recipes:read'] });
    expect(await at('ocr').verifyUser(bearer(forOcr), { delegated: 'only' })).toMatchObject({
      userId: user.id,
      caller: 'recipes',
      scopes: ['documents:read'],
      chain: [
        { service: 'recipes', appId: second },
        { service: 'web', appId: first },
      ],
    });
    expect(await codeOf(at('ocr').verifyUser(bearer(forOcr), { delegated: true, scope: 'documents:write' }))).toBe(
      'missing_scope',
    );
    expect(await codeOf(at('ocr').verifyUser(bearer(forOcr)))).toBe('delegation_not_accepted');
    expect(await codeOf(at('recipes').verifyUser(bearer(forOcr), { delegated: true }))).toBe('invalid_access_token');
    expect(await at('ocr').verifyUser(bearer(own), { delegated: true })).toMatchObject({
      caller: null,
      email: user.email,
    });
    expect(await codeOf(at('ocr').tokenFor(bearer(forOcr), 'recipes'))).toBe('unavailable');
    await app.admin.delete(`/app-credentials/${first}`).expect(204);
    for (const verdict of [
      at('recipes').verifyUser(bearer(forRecipes), { delegated: true }),
      at('ocr').verifyUser(bearer(forOcr), { delegated: true }),
      at('recipes').tokenFor(bearer(forRecipes), 'ocr', { scope: 'documents:read' }),
    ])
      expect(await codeOf(verdict)).toBe('invalid_access_token');
    expect(await codeOf(at('ocr').verifyUser(bearer(own)))).toBe('accepted');
    await allow('web', 'recipes', ['recipes:read']);
    expect(await codeOf(at('ocr').verifyUser(bearer(forOcr), { delegated: true }))).toBe('invalid_access_token');
  });

  it('loses at once a scope of the pair, and everything when the session ends', async () => {
    const { own, forOcr } = await passOn();
    const verify = (scope?: string) => codeOf(at('ocr').verifyUser(bearer(forOcr), { delegated: true, scope }));
    expect(await verify('documents:read')).toBe('accepted');
    const { chain } = await at('ocr').verifyUser(bearer(forOcr), { delegated: 'only' });
    await app.admin.patch(`/app-credentials/${chain[0]!.appId}`, { scopes: ['documents:write'] }).expect(200);
    expect(await verify('documents:read')).toBe('missing_scope');
    expect(await verify()).toBe('accepted');
    await app.post('/api/v0/auth/logout').set('Authorization', `Bearer ${own}`).expect(204);
    expect(await verify()).toBe('invalid_access_token');
  });
});
