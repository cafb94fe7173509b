import { once } from 'node:events';
import { existsSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { writeDevRecords } from '../../src/cli/dev/dev-records.js';
import { DEV_NODE, DEV_SECRETS, getDevAdminKey, getDevCredential } from '../../src/cli/dev/fixed-values.js';
import { parsePlatformMap } from '../../src/cli/platform/platform-map.js';
import { InvalidEnvironmentError, parseEnvironment } from '../../src/foundation/config/environment.js';
import { findKeys } from '../../src/foundation/crypto/secret.js';
import { withClient } from '../../src/foundation/database/connection-check.js';
import { Cli } from '../support/cli.js';
import { ADMIN_KEY, SECRET_KEY, UNLEASED } from '../support/settings.js';
import { useApp } from '../support/use-app.js';

const PAIR = getDevCredential('recipes', 'ocr');

describe('platform-auth dev', () => {
  const cli = new Cli('http://127.0.0.1:1', {});
  afterEach(() => expect(existsSync(cli.path('.data'))).toBe(false));

  it.each([
    [{ NODE_ENV: 'production' }, 'NODE_ENV is production, and the keys of platform-auth dev are public'],
    [{ HOST: '0.0.0.0' }, 'HOST is not a loopback address, and the keys of platform-auth dev are public'],
    [{ HOST: '127.0.0.1.example.org' }, 'HOST is not a loopback address'],
    [{ HOST: '192.0.2.7' }, 'HOST is not a loopback address'],
    [{ METRICS_HOST: '0.0.0.0' }, 'METRICS_HOST is not a loopback address'],
    [{ PORT: 'x' }, 'PORT must be a whole number'],
  ])('refuses %j with a sentence, and makes nothing', async (variables, sentence) => {
    expect(await cli.with(variables).fails('dev')).toContain(sentence);
  });

  it('names a taken port, and the command that most likely took it', async () => {
    const other = createServer();
    await once(other.listen(0, '127.0.0.1'), 'listening');
    const { port } = other.address() as AddressInfo;
    expect(await cli.with({ PORT: String(port) }).fails('dev')).toMatch(
      new RegExp(`^Port ${port} is taken: platform-auth dev or npm start may be running already`),
    );
    await once(other.close(), 'close');
  });

  it('names the line of a mistake in the map', async () => {
    writeFileSync(cli.path('bad.yaml'), 'services:\n  auth: { url: http://127.0.0.1:7701, calls: [x] }\n');
    expect(await cli.fails('dev --map bad.yaml')).toContain('bad.yaml:2 services.auth.calls.0: x is not a service');
  });
});

describe('the fixed values of platform-auth dev', () => {
  const app = useApp({ variables: UNLEASED });

  it.each([
    ['node', DEV_NODE.key],
    ['app', PAIR.key],
    ['admin', getDevAdminKey('auth')],
  ])('have the form of a key of this service: %s', (kind, key) => {
    expect(findKeys(`key=${key}`)).toEqual([{ kind, key }]);
  });

  it('open no door of another service', async () => {
    await app.validateNode(`${DEV_NODE.id}:${DEV_NODE.key}`).expect(401);
    const headers = { 'X-Platform-App-Id': PAIR.id, 'X-Platform-App-Key': PAIR.key };
    await app.post('/internal/validate-app', { target: 'ocr' }).set(headers).expect(401);
    await app.get('/api/v0/admin/nodes').set('X-Admin-Key', getDevAdminKey('auth')).expect(401);
  });

  it.each([
    ['SECRET_KEY', DEV_SECRETS.SECRET_KEY],
    ['MASTER_KEY', DEV_SECRETS.MASTER_KEY],
    ['AUDIT_SEAL_KEY', DEV_SECRETS.AUDIT_SEAL_KEY],
    ['ADMIN_API_KEY', getDevAdminKey('auth')],
  ])('do not start a service in production: %s', (name, value) => {
    const good = { DATABASE_URL: 'postgresql://localhost/auth', SECRET_KEY, ADMIN_API_KEY: ADMIN_KEY };
    const start = (NODE_ENV: string) => parseEnvironment({ ...good, NODE_ENV, [name]: value });
    expect(() => start('development')).not.toThrow();
    expect(() => start('production')).toThrow(InvalidEnvironmentError);
    expect(() => start('production')).toThrow(`${name} must not be the one of platform-auth dev`);
  });
});

describe('the records of platform-auth dev', () => {
  const app = useApp({ variables: UNLEASED });

  it('make an app credential one for users exactly when the map does', async () => {
    for (const for_users of [true, false]) {
      const map = `services:
        auth: { url: http://127.0.0.1:7701 }
        recipes: { url: http://127.0.0.1:7706, calls: { ocr: { scopes: [documents:read], for_users: ${for_users} } } }
        ocr: { url: http://127.0.0.1:7705 }`;
      const { services } = parsePlatformMap(map, 'the map');
      await withClient(app.database.url, (client) => writeDevRecords(client, services));
      const { body } = await app.admin.get(`/app-credentials/${PAIR.id}`).expect(200);
      expect(body).toMatchObject({ for_users, scopes: ['documents:read'] });
    }
  });
});
