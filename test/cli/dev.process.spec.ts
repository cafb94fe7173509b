import { existsSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { DevValues } from '../../src/cli/dev/dev.js';
import { getServerFolder } from '../../src/foundation/embedded-postgres/embedded-postgres.js';
import { eventually } from '../../tools/eventually.js';
import { claimPort } from '../../tools/claim-port.js';
import { Cli } from '../support/cli.js';

const MAP = `services:
  auth: { url: https://auth.example.org/base }
  recipes:
    url: http://127.0.0.1:7706
    calls: { auth: , ocr: [documents:read] }
    events: [user.deleted]
    verifies_access_tokens: true
  ocr: { url: http://127.0.0.1:7705, urls: { AUTH_URL: auth } }
nodes: { targets: [ocr] }
`;
const START_MS = 90_000;
const SCENARIO_MS = 240_000;

describe('platform-auth dev', () => {
  let cli: Cli;
  let pidFile: string;

  beforeAll(async () => {
    // MAIL_URL and SECRET_KEY are of another platform, as a shell may export them.
    const foreign = { MAIL_URL: 'smtp://127.0.0.1:1', SECRET_KEY: 'x', DATABASE_URL: 'postgresql://127.0.0.1:1/auth' };
    cli = new Cli('', { PORT: String(await claimPort()), REVOCATION_LEASE_MS: '100', ...foreign });
    writeFileSync(cli.path('platform.yaml'), MAP);
    pidFile = join(getServerFolder(join(realpathSync(cli.folder), '.data/dev/postgres')), 'cluster/postmaster.pid');
  });

  afterAll(() => {
    rmSync(getServerFolder(join(realpathSync(cli.folder), '.data/dev/postgres')), { recursive: true, force: true });
  });

  const start = async () => {
    const command = cli.start('dev', '--json');
    const isPrinted = () => command.shown().endsWith('\n}\n');
    await Promise.race([command.ended, eventually('it is ready', isPrinted, START_MS)]);
    const stop = async () => {
      command.kill('SIGINT');
      const { code } = await command.ended;
      expect(existsSync(pidFile)).toBe(false);
      return code;
    };
    if (!isPrinted()) throw new Error((await command.ended).stderr);
    return { values: JSON.parse(command.shown()) as DevValues, said: command.said, stop };
  };

  const call = (url: string, path: string, headers: Record<string, string>, body?: object, method = 'POST') =>
    fetch(`${url}${path}`, {
      method,
      headers: { ...(body && { 'Content-Type': 'application/json' }), ...headers },
      ...(body && { body: JSON.stringify(body) }),
    });

  /** Presents each fixed credential at its door. */
  const present = async ({ url, user, node, services }: DevValues): Promise<number[]> => {
    const recipes = services.find(({ name }) => name === 'recipes')?.variables ?? {};
    const app = { 'X-Platform-App-Id': recipes.OCR_APP_ID!, 'X-Platform-App-Key': recipes.OCR_APP_KEY! };
    const key = { 'X-API-Key': `${node.node_id}:${node.api_key}` };
    const { email, password } = user;
    const answers = await Promise.all([
      call(url, '/api/v0/auth/login', {}, { email, password }),
      call(url, '/internal/validate-node', { ...key, 'X-Platform-Target': 'ocr' }),
      call(url, '/internal/validate-app', { ...app, 'X-Platform-Scope': 'documents:read' }, { target: 'ocr' }),
    ]);
    return answers.map(({ status }) => status);
  };

  it(
    'serves the map with the same keys at every start, prints the mail, and leaves nothing running',
    async () => {
      const first = await start();
      const { url, node, admin_api_key, user, services } = first.values;
      expect(services.map(({ name, variables }) => [name, Object.keys(variables)])).toEqual([
        [
          'recipes',
          [
            ...['SECRET_KEY', 'AUTH_URL', 'OCR_URL', 'SERVICE_NAME'],
            ...['AUTH_APP_ID', 'AUTH_APP_KEY', 'OCR_APP_ID', 'OCR_APP_KEY'],
          ],
        ],
        ['ocr', ['AUTH_URL']],
      ]);
      expect(services[1]?.variables.AUTH_URL).toBe(url);
      expect(await present(first.values)).toEqual([200, 200, 200]);
      await call(url, '/api/v0/auth/password-reset', {}, { email: user.email });
      const admin = { 'X-Admin-Key': admin_api_key };
      const rotated = await call(url, `/api/v0/admin/nodes/${node.node_id}/rotate`, admin, { overlap_hours: 0 });
      expect(rotated.status).toBe(200);
      const { OCR_APP_ID } = services[0]!.variables;
      expect((await call(url, `/api/v0/admin/app-credentials/${OCR_APP_ID}`, admin, undefined, 'DELETE')).status).toBe(
        204,
      );
      const pair = { caller: 'recipes', target: 'ocr' };
      expect((await call(url, '/api/v0/admin/app-credentials', admin, pair)).status).toBe(201);
      await eventually('the mail is printed', () =>
        /Mail to alice@example\.org .*\n.*\n\n[^]*http\S+#token=pa_reset_/.test(first.said()),
      );
      expect(await first.stop()).toBe(0);

      const second = await start();
      expect(second.values).toEqual(first.values);
      expect(await present(second.values)).toEqual([200, 200, 200]);
      const subscriptions = await call(second.values.url, '/api/v0/admin/event-subscriptions', admin, undefined, 'GET');
      expect(await subscriptions.json()).toMatchObject({ items: [{ service: 'recipes', types: ['user.deleted'] }] });
      expect(await second.stop()).toBe(0);
    },
    SCENARIO_MS,
  );

  it(
    'ends everything and says what to do next when another user has the e-mail of the fixed one',
    async () => {
      const { values, stop } = await start();
      const { url, user, admin_api_key } = values;
      const admin = { 'X-Admin-Key': admin_api_key };
      const rename = { email: 'carol@example.org' };
      expect((await call(url, `/api/v0/admin/users/${user.id}`, admin, rename, 'PATCH')).status).toBe(200);
      const { email, password } = user;
      expect((await call(url, '/api/v0/auth/register', {}, { email, password })).status).toBe(201);
      await stop();

      const { code, stderr } = await cli.start('dev').ended;
      expect(code).toBe(1);
      expect(stderr).toMatch(
        /Another user of this database has alice@example\.org\. Delete the folder \S+ to begin anew/,
      );
      expect(existsSync(pidFile)).toBe(false);
    },
    SCENARIO_MS,
  );
});
