import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { Verifier } from '../../clients/typescript/src/verifier.js';
import { ADMIN_KEY } from '../support/settings.js';
import { TestApp } from '../support/test-app.js';
import { OwnPlatform, useCommands } from './own-platform.js';

const JWKS_URL = 'http://127.0.0.1:7701/.well-known/jwks.json';

useCommands();

describe('the files of services that embed a verifier', () => {
  let platform: OwnPlatform;

  beforeEach(async () => {
    platform = await OwnPlatform.create();
  });

  afterEach(async () => {
    await platform.remove();
  });

  /** What auth.env says before or after the first run. */
  const configureAuth = (lines: string): void => {
    mkdirSync(platform.envDir, { recursive: true });
    const before = existsSync(platform.path('auth')) ? readFileSync(platform.path('auth'), 'utf8') : '';
    writeFileSync(platform.path('auth'), `${before}${lines}\n`);
  };
  const named = (name: string): string[] =>
    platform.map.services.filter((service) => name in platform.variables(service.name)).map(({ name }) => name);
  const callersOfAuth = ['command-orchestration', 'ocr', 'recipes', 'logging', 'configuration'];

  it('name each service as in the map, and only where auth is among its calls', async () => {
    await platform.init();
    expect(named('SERVICE_NAME')).toEqual(callersOfAuth);
    for (const name of callersOfAuth) expect(platform.variables(name).SERVICE_NAME).toBe(name);
    expect(named('AUTH_JWKS_URL')).toEqual([]);
  });

  it('are what Verifier.fromEnvironment reads', async () => {
    platform.changeMap(({ services }) => (services.recipes!.urls = { KEYS_URL: 'auth/keys' }));
    await platform.init();
    const { AUTH_APP_KEY: key, ...variables } = platform.variables('recipes');
    const logger = { warn: () => undefined };
    const verifier = Verifier.fromEnvironment({ logger }, { ...variables, AUTH_APP_KEY: key });
    verifier.close();
    expect(() => Verifier.fromEnvironment({}, variables)).toThrow('Not set: AUTH_APP_KEY');
  });

  it('do not hold SECRET_KEY under ES256, but the address of the public keys', async () => {
    configureAuth('ACCESS_TOKEN_ALGORITHM=ES256');
    await platform.init();
    expect(named('SECRET_KEY')).toEqual(['auth']);
    // Services that verify tokens without a verifier need the address as well.
    expect(named('AUTH_JWKS_URL').sort()).toEqual([...callersOfAuth, 'mcp', 'settings'].sort());
    expect(platform.variables('recipes').AUTH_JWKS_URL).toBe(JWKS_URL);
    const before = platform.snapshot();
    await platform.init();
    expect(platform.snapshot()).toEqual(before);
  });

  it('hold the address of the public keys that the map gives, if it gives one', async () => {
    platform.changeMap(({ services }) => (services.recipes!.urls = { AUTH_JWKS_URL: 'auth/keys.json' }));
    configureAuth('ACCESS_TOKEN_ALGORITHM=ES256');
    await platform.init();
    expect(platform.variables('recipes').AUTH_JWKS_URL).toBe('http://127.0.0.1:7701/keys.json');
  });

  it('hold issuer and audience where auth has its own', async () => {
    configureAuth('JWT_ISSUER=home\nJWT_AUDIENCE=platform');
    await platform.init();
    expect(platform.variables('ocr')).toMatchObject({ JWT_ISSUER: 'home', JWT_AUDIENCE: 'platform' });
    expect(named('JWT_ISSUER').sort()).toEqual([...callersOfAuth, 'auth'].sort());
  });

  it('are not written, nor is anything else, when the algorithm of auth does not exist', async () => {
    await platform.init();
    configureAuth('ACCESS_TOKEN_ALGORITHM=none');
    rmSync(platform.path('ocr'));
    const [files, rows] = [platform.snapshot(), await platform.rows()];
    await expect(platform.init()).rejects.toThrow(/ACCESS_TOKEN_ALGORITHM/);
    expect(platform.snapshot()).toEqual(files);
    expect(await platform.rows()).toEqual(rows);
  });

  describe('under doctor', () => {
    let app: TestApp;
    const start = async (variables = {}): Promise<string> => {
      platform.edit('auth', (text) => text.replace(/^ADMIN_API_KEY=.*/m, `ADMIN_API_KEY=${ADMIN_KEY}`));
      app = await TestApp.start({ database: platform.database, clock: platform.clock, variables });
      return `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`;
    };

    afterEach(async () => {
      await app.stop();
    });

    it('are reported when they still hold the SECRET_KEY after a change to ES256', async () => {
      await platform.init();
      configureAuth('ACCESS_TOKEN_ALGORITHM=ES256');
      await platform.init();
      const { SECRET_KEY } = platform.variables('auth');
      const findings = await platform.diagnose(
        await start({ ACCESS_TOKEN_ALGORITHM: 'ES256', SECRET_KEY: SECRET_KEY! }),
      );
      expect(findings).toEqual(
        ['command-orchestration', 'recipes', 'settings', 'mcp'].map((name): unknown => ({
          severity: 'warning',
          where: `${name}.env`,
          what: expect.stringMatching(/^It holds the SECRET_KEY, which only auth needs under ES256/),
          do: expect.stringMatching(/keys\.md/),
        })),
      );
    });

    it('are reported when auth.env says ES256 and the running service has no public key', async () => {
      configureAuth('ACCESS_TOKEN_ALGORITHM=ES256');
      await platform.init();
      expect(await platform.diagnose(await start())).toMatchObject([
        {
          severity: 'broken',
          what: expect.stringMatching(/jwks\.json has no key/),
          do: expect.stringMatching(/^Restart/),
        },
      ]);
    });

    it('are reported when their key is valid and the verifier could not poll with it', async () => {
      await platform.init();
      const service = await start();
      // A proxy that was configured before verifiers existed.
      const proxy = createServer((request, response) => {
        if (request.url === '/internal/changes') response.writeHead(404).end();
        else void forward(service, request, response);
      });
      await once(proxy.listen(0, '127.0.0.1'), 'listening');
      const findings = await platform.diagnose(`http://127.0.0.1:${(proxy.address() as AddressInfo).port}`);
      proxy.close();
      proxy.closeAllConnections();
      expect(findings).toHaveLength(callersOfAuth.length);
      expect(findings[0]).toMatchObject({
        severity: 'broken',
        where: 'command-orchestration.env: command-orchestration → auth',
        what: expect.stringMatching(/is valid, but \/internal\/changes answers 404/),
      });
    });
  });
});

async function forward(service: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { method = 'GET', url = '', headers } = request;
  const body = method === 'GET' ? null : await text(request);
  const names = ['content-type', 'x-platform-app-id', 'x-platform-app-key', 'x-admin-key'].filter(
    (name) => name in headers,
  );
  const kept = Object.fromEntries(names.map((name) => [name, String(headers[name])]));
  const answer = await fetch(service + url, { method, headers: kept, body });
  response.writeHead(answer.status, { 'Content-Type': 'application/json' }).end(await answer.text());
}
