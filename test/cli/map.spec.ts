import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { parsePlatformMap, readPlatformMap } from '../../src/cli/platform/platform-map.js';
import { OwnPlatform, SHIPPED_MAP, SPECIFIED_PAIRS, useCommands } from './own-platform.js';
import { claimPort } from '../../tools/claim-port.js';
import { ServiceProcess } from '../support/service-process.js';
import { StandIn } from './stand-in.js';
import { Verifier } from '../../clients/typescript/src/verifier.js';
import { urlOf } from '../support/cli.js';
import { serve } from '../support/serve.js';
import { ADMIN_KEY } from '../support/settings.js';
import { TestApp } from '../support/test-app.js';

const complaintsAbout = (text: string): string => {
  try {
    parsePlatformMap(text, 'map.yaml');
    return 'none';
  } catch (error) {
    return (error as Error).message;
  }
};

const GOOD = `services:
  auth:
    url: http://127.0.0.1:7701
  ocr:
    url: http://127.0.0.1:7705
    calls:
      - auth
`;

describe('the shipped map', () => {
  const map = readPlatformMap(SHIPPED_MAP);

  it('has every service that the specification names', () => {
    expect(map.services.map(({ name }) => name).sort()).toEqual(
      [
        ...['admin-ui', 'auth', 'command-orchestration', 'configuration', 'logging', 'mcp', 'notification', 'ocr'],
        ...['recipes', 'settings', 'speech-to-text', 'text-to-speech'],
      ].sort(),
    );
  });

  it('has exactly the calls of the specification (section 5, rule 4)', () => {
    const pairs = map.services.flatMap(({ name, calls }) => calls.map((target) => `${name} → ${target}`));
    expect(pairs.sort()).toEqual(SPECIFIED_PAIRS);
  });

  it('gives every service the URL of auth, where it validates credentials', () => {
    for (const { name, urls } of map.services.filter(({ name }) => name !== 'auth'))
      expect({ name, urls }).toMatchObject({
        urls: expect.arrayContaining([{ variable: 'AUTH_URL', url: 'http://127.0.0.1:7701' }]),
      });
  });

  it('is valid with its commented lines for log delivery', () => {
    const text = readFileSync(SHIPPED_MAP, 'utf8').replace('# calls:', 'calls:').replace('# urls:', 'urls:');
    expect(parsePlatformMap(text, 'platform.yaml').services[0]).toMatchObject({
      name: 'auth',
      calls: ['logging'],
      urls: [{ variable: 'LOGGING_SERVICE_URL', url: 'http://127.0.0.1:7707/api/v0/logs' }],
    });
  });
});

describe('a map that gives the address of auth under another name', () => {
  it.each([
    ['', 'http://127.0.0.1:7701'],
    ['      AUTH_URL: auth/inside\n', 'http://127.0.0.1:7701/inside'],
  ])('gives a service that calls auth AUTH_URL too, where verifiers look for it (%j)', (more, url) => {
    const text = `${GOOD}    urls:\n      KEYS_URL: auth/keys\n${more}`;
    const urls = parsePlatformMap(text, 'map.yaml').services[1]?.urls;
    expect(urls).toHaveLength(2);
    expect(urls).toContainEqual({ variable: 'AUTH_URL', url });
  });
});

describe('a map with a mistake', () => {
  it('is parsed without the mistake', () => {
    expect(complaintsAbout(GOOD)).toBe('none');
  });

  it.each([
    ['text that is not YAML', GOOD.replace('- auth', '- [auth'), /map\.yaml:[78] /],
    ['a key twice', `${GOOD}  ocr:\n    url: http://x\n`, /map\.yaml:8 .*unique/],
    ['an unknown key', GOOD.replace('    calls:', '    call:'), /map\.yaml:6 services\.ocr\.call: is not known here/],
    [
      'more aliases than a map needs',
      `a: &a [x, x, x, x, x, x, x, x, x, x]\nb: &b [${'*a, '.repeat(10)}]\nc: [${'*b, '.repeat(10)}]\n${GOOD}`,
      /^The map is not usable:\n {2}map\.yaml:1 has aliases that cannot be resolved, or that stand for too much$/,
    ],
    ['no services', 'servces: {}\n', /map\.yaml:1 /],
    ['nothing at all', '', /map\.yaml:1 /],
    [
      'a call to an unknown service',
      GOOD.replace('- auth', '- recipes'),
      /map\.yaml:7 services\.ocr\.calls\.0: recipes is not a s/,
    ],
    ['a call to itself', GOOD.replace('- auth', '- ocr'), /map\.yaml:7 .* does not call itself/],
    ['a call twice', `${GOOD}      - auth\n`, /map\.yaml:8 services\.ocr\.calls\.1: auth is listed twice/],
    [
      'a scope that is none',
      GOOD.replace('- auth', 'auth: [Documents]'),
      /map\.yaml:7 services\.ocr\.calls\.auth\.0: must be a lower-case letter/,
    ],
    [
      'scopes of an unknown service',
      GOOD.replace('- auth', 'recipes:'),
      /map\.yaml:7 services\.ocr\.calls\.recipes: recipes is not a s/,
    ],
    [
      'no scope in a list of them',
      GOOD.replace('- auth', 'auth: []'),
      /map\.yaml:7 .*must be 1 to 32 different scopes/,
    ],
    [
      'an unknown target of nodes',
      `${GOOD}nodes:\n  targets: [ocr, x]\n`,
      /map\.yaml:9 nodes\.targets\.1: x is not a s/,
    ],
    ['an address that is none', GOOD.replace('http://127.0.0.1:7705', 'ocr:7705'), /map\.yaml:5 services\.ocr\.url: /],
    ['a line break in an address', GOOD.replace('http://127.0.0.1:7705', '"http://x\\nA=b"'), /map\.yaml:5 /],
    ['no address', GOOD.replace('    url: http://127.0.0.1:7705\n', ''), /map\.yaml:4 services\.ocr\.url: /],
    ['a name that is a path', GOOD.replace('  ocr:', '  ../ocr:'), /map\.yaml:4 services\.\.\.\/ocr: must be a letter/],
    ['no auth', GOOD.replaceAll('auth', 'oauth'), /map\.yaml:1 services: has no auth/],
    [
      'a "yes" that is not a boolean',
      `${GOOD}    admin_endpoints: "yes"\n`,
      /map\.yaml:8 services\.ocr\.admin_endpoints: /,
    ],
    [
      'names that share variables',
      `${GOOD}  OCR:\n    url: http://x\n`,
      /map\.yaml:8 services\.OCR: would have the same/,
    ],
    [
      'the URL of an unknown service',
      `${GOOD}    urls:\n      X_URL: x/y\n`,
      /map\.yaml:9 services\.ocr\.urls\.X_URL: x is not/,
    ],
    [
      'the name of a service with a verifier as an address',
      `${GOOD}    urls:\n      SERVICE_NAME: auth\n`,
      /map\.yaml:9 services\.ocr\.urls\.SERVICE_NAME: is already used/,
    ],
    [
      'another service as AUTH_URL of a service that sends its credentials there',
      `${GOOD}    urls:\n      AUTH_URL: ocr\n`,
      /map\.yaml:9 services\.ocr\.urls\.AUTH_URL: must be an address of auth/,
    ],
    [
      'an unknown type of events',
      `${GOOD}    events: [user.deleted, user.vanished]\n`,
      /map\.yaml:8 services\.ocr\.events\.1: Invalid option: expected one of "user\.registered"/,
    ],
    [
      'no type of events in a list of them',
      `${GOOD}    events: []\n`,
      /map\.yaml:8 .*must be one or more different types/,
    ],
    ['a type of events twice', `${GOOD}    events: [user.deleted, user.deleted]\n`, /map\.yaml:8 .*different types/],
    [
      'events for auth itself',
      GOOD.replace('  ocr:', '    events: [user.deleted]\n  ocr:'),
      /map\.yaml:4 services\.auth\.events: this service does not read its own events/,
    ],
    [
      'events for a service without a credential for auth',
      `${GOOD}  recipes:\n    url: http://x\n    events: [user.deleted]\n`,
      /map\.yaml:10 services\.recipes\.events: a service reads events with its credential for auth: add auth to its calls/,
    ],
    [
      'events for an unknown service, under a key that is none',
      `${GOOD}events:\n  recipes: [user.deleted]\n`,
      /map\.yaml:8 events: is not known here/,
    ],
    [
      'another service as the address of a service that is called',
      `${GOOD}  recipes:\n    url: http://x\n    calls: [ocr]\n    urls: { OCR_URL: auth }\n`,
      /map\.yaml:11 services\.recipes\.urls\.OCR_URL: must be an address of ocr: the service sends credentials there/,
    ],
    [
      'a call to a service whose address would replace DATABASE_URL',
      `${GOOD}      - database\n  database:\n    url: http://x\n`,
      /map\.yaml:8 services\.ocr\.calls\.1: its address would be DATABASE_URL, which is already used .* in urls$/,
    ],
    [
      'a call of auth to a service whose address would replace a variable of auth',
      `${GOOD.replace('  ocr:', '    calls: [mail]\n  ocr:')}  mail:\n    url: http://x\n`,
      /map\.yaml:4 services\.auth\.calls\.0: its address would be MAIL_URL, which is already used .* in urls$/,
    ],
    ['a secret as an address', `${GOOD}    urls:\n      SECRET_KEY: auth\n`, /map\.yaml:9 .* is already used/],
  ])('is reported with its line: %s', (_, text, expected) => {
    expect(complaintsAbout(text)).toMatch(expected);
  });

  it('is not a name of a service that no service calls, whose address has a variable in urls, or that replaces none', () => {
    const named = `${GOOD}  database:\n    url: http://x\n    calls: [auth]\n`;
    expect(complaintsAbout(named)).toBe('none');
    const logging = `${GOOD.replace('  ocr:', '    calls: [logging-service]\n  ocr:')}  logging-service:\n    url: http://x\n`;
    expect(complaintsAbout(logging)).toBe('none');
    const called = `${named}  recipes:\n    url: http://x\n    calls: [database]\n    urls: { STORE_URL: database }\n`;
    expect(parsePlatformMap(called, 'map.yaml').services.at(-1)?.urls).toEqual([
      { variable: 'STORE_URL', url: 'http://x' },
    ]);
  });

  it('is refused in a sentence when it never ends, is large, or nests too deeply', () => {
    expect(() => readPlatformMap('/dev/zero')).toThrow(
      'The map /dev/zero cannot be read: it has more than 256 KB. Correct --map.',
    );
    expect(complaintsAbout(`services: ${'['.repeat(5_000)}`)).toMatch(/^The map is not usable:\n {2}map\.yaml:\d+ /);
    expect(complaintsAbout('services: &all\n  auth: *all\n')).toMatch(/^The map is not usable:\n {2}map\.yaml:\d /);
  });

  it('is reported with 20 others at most, also when each alias repeats thousands of them', () => {
    const wrong = Array.from({ length: 1_000 }, (_, index) => `s${index}: {url: x}`).join(', ');
    const text = `services:\n  a: &a {${wrong}}\n${Array.from({ length: 90 }, (_, index) => `  b${index}: *a\n`).join('')}`;
    const lines = complaintsAbout(text).split('\n');
    expect(lines).toHaveLength(22);
    expect(lines.at(-1)).toBe('  and more');
  });

  it('is reported with every other one, in the order of the lines', () => {
    const text = GOOD.replace('http://127.0.0.1:7701', 'nowhere').replace('    calls:', '    call:');
    expect(complaintsAbout(text).match(/map\.yaml:\d+/g)).toEqual(['map.yaml:3', 'map.yaml:6']);
  });

  it('is reported at the anchor when it is used by an alias', () => {
    const text = `${GOOD}  recipes:\n    url: http://127.0.0.1:7706\n    calls: &calls\n      - nobody\n  mcp:\n    url: http://127.0.0.1:7710\n    calls: *calls\n`;
    expect(complaintsAbout(text).match(/map\.yaml:\d+/g)).toEqual(['map.yaml:11', 'map.yaml:11']);
  });
});

describe('a platform started from the files that init wrote', () => {
  let platform: OwnPlatform;
  let auth: ServiceProcess;
  const standIns = new Map<string, StandIn>();

  beforeAll(async () => {
    platform = await OwnPlatform.create();
    const names = platform.map.services.map(({ name }) => name).filter((name) => name !== 'auth');
    for (const name of names) standIns.set(name, await StandIn.listen(name));
    const port = await claimPort();
    platform.changeMap(({ services }) => {
      services.auth!.url = `http://127.0.0.1:${port}`;
      for (const [name, { url }] of standIns) services[name]!.url = url;
    });
    await platform.init();
    for (const [name, standIn] of standIns) standIn.read(platform.variables(name));
    // Production: the service has its own file and nothing else.
    const own = { ...platform.variables('auth'), NODE_ENV: 'production', PORT: String(port), LOG_LEVEL: 'silent' };
    // Otherwise doctor warns that operators may choose the passwords of users.
    auth = await ServiceProcess.start({ ...own, SHUTDOWN_DELAY_MS: '0', ADMIN_SET_PASSWORDS: 'refused' });
  });

  afterAll(async () => {
    for (const standIn of standIns.values()) standIn.close();
    await auth.stop();
    await platform.remove();
  });

  it('accepts every call of the map', async () => {
    const calls = SPECIFIED_PAIRS.map(async (pair) => {
      const [caller, target] = pair.split(' → ') as [string, string];
      return `${pair}: ${await standIns.get(caller)!.call(target)}`;
    });
    expect(await Promise.all(calls)).toEqual(SPECIFIED_PAIRS.map((pair) => `${pair}: 200`));
  });

  it('refuses every call that is not in the map, with every credential', async () => {
    const names = platform.map.services.map(({ name }) => name);
    const others = [...standIns.keys()].flatMap((caller) =>
      names
        .filter((target) => target !== caller && !SPECIFIED_PAIRS.includes(`${caller} → ${target}`))
        .map((target) => ({ caller, target })),
    );
    expect(others).toHaveLength(11 * 11 - SPECIFIED_PAIRS.length);
    const statuses = await Promise.all(
      others.map(({ caller, target }) =>
        standIns.get(caller)!.callUninvited(target, target === 'auth' ? auth.url : standIns.get(target)!.url),
      ),
    );
    expect(new Set(statuses.flat())).toEqual(new Set([401]));
  });

  it('has no findings of doctor, which finds the running service by the map', async () => {
    expect(await platform.diagnose()).toEqual([]);
  });
});

const JWKS_URL = 'http://127.0.0.1:7701/.well-known/jwks.json';

useCommands();

describe('the files of services that embed a verifier', () => {
  let platform: OwnPlatform;

  beforeEach(async () => {
    platform = await OwnPlatform.create({ isEmpty: false });
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

  it('name each service as in the map where auth is among its calls, and are what Verifier.fromEnvironment reads', async () => {
    await platform.init();
    expect(named('SERVICE_NAME')).toEqual(callersOfAuth);
    for (const name of callersOfAuth) expect(platform.variables(name).SERVICE_NAME).toBe(name);
    expect(named('AUTH_JWKS_URL')).toEqual([]);
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
    // Unless the map names another address.
    platform.changeMap(({ services }) => (services.recipes!.urls = { AUTH_JWKS_URL: 'auth/keys.json' }));
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
    const before = await platform.state();
    await expect(platform.init()).rejects.toThrow(/ACCESS_TOKEN_ALGORITHM/);
    expect(await platform.state()).toEqual(before);
  });

  describe('under doctor', () => {
    let app: TestApp;
    const start = async (variables = {}): Promise<string> => {
      platform.edit('auth', (text) => text.replace(/^ADMIN_API_KEY=.*/m, `ADMIN_API_KEY=${ADMIN_KEY}`));
      app = await TestApp.start({ database: platform.database, clock: platform.clock, variables });
      return urlOf(app);
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

    it('do not suffice for a pair for users under HS256, nor when its target verifies access tokens itself', async () => {
      platform.changeMap(({ services: { ocr, settings } }) => {
        ocr!.calls = { auth: null, settings: { scopes: ['pages:read'], for_users: true } };
        settings!.verifies_access_tokens = true;
      });
      await platform.init();
      const algorithm = {
        severity: 'broken',
        where: 'auth: ACCESS_TOKEN_ALGORITHM',
        what: expect.stringMatching(
          /^Under HS256 .* refuses every exchange, .* For users: ocr → settings\.$/,
        ) as string,
      };
      const target = {
        severity: 'warning',
        where: 'ocr → settings',
        what: expect.stringMatching(/^settings verifies access tokens itself/) as string,
      };
      const url = await start();
      expect(await platform.diagnose(url)).toMatchObject([algorithm, target]);
      platform.changeMap(({ services: { settings } }) => (settings!.verifies_access_tokens = false));
      platform.edit('settings', (text) => text.replace(/^SECRET_KEY=.*\n/m, ''));
      expect(await platform.diagnose(url)).toMatchObject([algorithm]);
      configureAuth('ACCESS_TOKEN_ALGORITHM=ES256');
      expect((await platform.diagnose(url)).map(({ where }) => where)).not.toContain(algorithm.where);
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

    it('are not enough for ES256 where a replica cannot decrypt a signing key, and answers 503 for the JWKS', async () => {
      configureAuth('ACCESS_TOKEN_ALGORITHM=ES256');
      await platform.init();
      // Without a lease the replica reads the keys for each request.
      const url = await start({ ACCESS_TOKEN_ALGORITHM: 'ES256', REVOCATION_LEASE_MS: '0' });
      expect(await platform.diagnose(url)).toEqual([]);
      // A private key is encrypted for its kid.
      await platform.database.query(`UPDATE signing_keys SET kid = '${'A'.repeat(43)}' WHERE state = 'next'`);
      expect(await platform.diagnose(url)).toMatchObject([
        {
          severity: 'broken',
          where: url,
          what: '/.well-known/jwks.json answers 503.',
          do: expect.stringMatching(/^Read the log of auth/),
        },
      ]);
    });

    it('are not enough where a proxy does not know the route that the verifier polls', async () => {
      await platform.init();
      const service = await start();
      // A proxy that was configured before verifiers existed.
      const proxy = await serve((request, response) => {
        if (request.url === '/internal/changes') response.writeHead(404).end();
        else void forward(service, request, response);
      });
      const findings = await platform.diagnose(proxy.url);
      proxy.close();
      expect(findings).toMatchObject([
        { severity: 'broken', where: `${proxy.url}/internal/changes`, what: 'No verdict: 404 from auth.' },
      ]);
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
