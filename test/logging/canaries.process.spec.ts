import { randomUUID } from 'node:crypto';
import { ServiceProcess } from '../support/service-process.js';
import { ADMIN_KEY, VARIABLES } from '../support/settings.js';
import { createTestDatabase, type TestDatabase } from '../support/test-database.js';

const CANARY = 'CANARY4b1d';
const HOSTILE = [CANARY, `${CANARY}\r\nINFO: forged`, `${CANARY}\u001b[31mred`, `${CANARY}\u2028line`];
const HEADERS = [
  'Authorization',
  'X-API-Key',
  'X-Admin-Key',
  'X-Platform-App-Id',
  'X-Platform-App-Key',
  'X-Forwarded-For',
  'Cookie',
];

describe('the log, at debug level', () => {
  let database: TestDatabase;
  let service: ServiceProcess;
  const answers: string[] = [];

  beforeAll(async () => {
    database = await createTestDatabase();
    service = await ServiceProcess.spawn({ ...VARIABLES, LOG_LEVEL: 'debug', DATABASE_URL: database.url });
    await service.ready();
  });

  afterAll(async () => {
    await service.stop();
    await database.drop();
  });

  const call = async (
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ): Promise<string> => {
    const init = { method, headers: { ...headers, ...(body !== undefined && { 'Content-Type': 'application/json' }) } };
    const answer = await fetch(service.url + path, {
      ...init,
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    return (await answer.text()) + JSON.stringify([...answer.headers]);
  };

  it('never repeats what a caller sent, and neither does a response', async () => {
    const admin = { 'X-Admin-Key': ADMIN_KEY };
    for (const text of HOSTILE) {
      answers.push(
        await call('POST', '/api/v0/auth/register', { email: text, password: text, [text]: text }),
        await call('POST', '/api/v0/auth/login', { email: `${randomUUID()}@example.org`, password: text }),
        await call('POST', '/api/v0/auth/refresh', { refresh_token: text }),
        await call('POST', '/api/v0/auth/logout', { refresh_token: text }),
        await call('POST', '/internal/validate-app', { target: text }, admin),
        await call('POST', '/api/v0/admin/nodes', { household_id: text, room: text, name: text }, admin),
        await call('GET', `/api/v0/admin/nodes/${encodeURIComponent(text)}`, undefined, admin),
        await call('GET', `/${encodeURIComponent(text)}?q=${encodeURIComponent(text)}`),
        await call('GET', `/api/v0/admin/nodes?cursor=${encodeURIComponent(text)}`, undefined, admin),
      );
    }
    for (const name of HEADERS) {
      for (const path of ['/internal/validate-node', '/internal/validate-app', '/api/v0/auth/logout']) {
        answers.push(await call('POST', path, {}, { [name]: `${CANARY}:${CANARY}` }));
      }
      answers.push(await call('GET', '/api/v0/users/me', undefined, { [name]: `Bearer ${CANARY}` }));
      answers.push(await call('GET', '/api/v0/admin/users', undefined, { [name]: CANARY }));
    }
    expect(answers.filter((answer) => answer.includes(CANARY))).toEqual([]);
    expect(service.output).not.toContain(CANARY);
  });

  it('never contains a secret that the service created or received', async () => {
    const admin = { 'X-Admin-Key': ADMIN_KEY };
    const person = { email: `${randomUUID()}@example.org`, password: `${CANARY} passphrase` };
    await call('POST', '/api/v0/auth/register', person);
    const json = async (path: string, body: object, headers = {}) =>
      (await (
        await fetch(service.url + path, {
          method: 'POST',
          headers: { 'Content-Type': 'application/json', ...headers },
          body: JSON.stringify(body),
        })
      ).json()) as Record<string, string>;
    const tokens = await json('/api/v0/auth/login', person);
    const bearer = { Authorization: `Bearer ${tokens.access_token}`, 'User-Agent': `${CANARY} agent` };
    const change = { current_password: `${CANARY} wrong`, new_password: `${CANARY} new passphrase` };
    await call('POST', '/api/v0/users/me/password', change, bearer);
    await call('POST', '/api/v0/users/me/password', { ...change, current_password: person.password }, bearer);
    await call('POST', '/api/v0/users/me/delete', { password: change.current_password }, bearer);
    const node = await json('/api/v0/admin/nodes', { household_id: randomUUID(), room: 'hall', name: 'lamp' }, admin);
    const app = await json('/api/v0/admin/app-credentials', { caller: 'ocr', target: 'auth' }, admin);
    await call('POST', '/internal/validate-node', undefined, { 'X-API-Key': `${node.node_id}:${node.api_key}` });
    await call('GET', '/api/v0/users/me', undefined, { Authorization: `Bearer ${tokens.access_token}` });
    const secrets = [person.password, tokens.access_token, tokens.refresh_token, node.api_key, app.app_key, ADMIN_KEY];
    for (const secret of [...secrets, ...Object.values(change), bearer['User-Agent'], VARIABLES.SECRET_KEY]) {
      expect(secret).toBeTruthy();
      expect(service.output).not.toContain(secret);
    }
    expect(service.output).not.toContain(person.email);
  });

  it('is one JSON object a line', () => {
    const lines = service.lines.filter(Boolean);
    expect(lines.length).toBeGreaterThan(50);
    for (const line of lines)
      expect(JSON.parse(line)).toMatchObject({ service: 'platform-auth', msg: expect.any(String) });
  });
});
