import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, request as httpRequest, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { OpenAPIObject } from '@nestjs/swagger';
import { ServiceProcess } from '../support/service-process.js';
import { ADMIN_KEY, VARIABLES } from '../support/settings.js';
import { createTestDatabase, type TestDatabase } from '../support/test-database.js';
import { toProblemType } from '../../src/problems/problem.filter.js';
import { problems } from '../../src/problems/problems.js';

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

type Headers = Record<string, string>;

interface Answer {
  readonly status: number;
  /** Headers and body. */
  readonly text: string;
  readonly body: string;
}

describe.each(['console', 'logging service'])('a canary, while the log goes to the %s', (destination) => {
const CANARY = 'CANARY-7f3a91';
/** Not a valid request id, which would be logged. */
const HOSTILE = `${CANARY} "\\"; <x>`;
const HEADERS = [
  'authorization',
  'x-api-key',
  'x-admin-key',
  'x-platform-app-id',
  'x-platform-app-key',
  'x-request-id',
  'x-forwarded-for',
  'forwarded',
  'user-agent',
  'referer',
  'origin',
  'cookie',
  'accept',
  'x-anything',
];
/** Every field of any documented request, with the canary as its value. */
function everyField(document: OpenAPIObject): Record<string, string> {
  const requests = Object.entries(document.components?.schemas ?? {}).filter(([name]) => name.endsWith('Request'));
  const names = requests.flatMap(([, schema]) => Object.keys((schema as { properties?: object }).properties ?? {}));
  expect(names).toEqual(expect.arrayContaining(['email', 'password', 'refresh_token', 'room', 'target', 'is_active']));
  return Object.fromEntries(names.map((name) => [name, HOSTILE]));
}

  let database: TestDatabase;
  let logging: Server;
  let service: ServiceProcess;
  let shipped = '';

  beforeAll(async () => {
    database = await createTestDatabase();
    logging = createServer((request, response) => {
      request.on('data', (chunk: Buffer) => (shipped += chunk.toString()));
      request.on('end', () => response.end());
    }).listen(0, '127.0.0.1');
    await once(logging, 'listening');
    const url = `http://127.0.0.1:${(logging.address() as AddressInfo).port}`;
    const variables = { ...VARIABLES, LOG_LEVEL: 'debug', DATABASE_URL: database.url };
    service = await ServiceProcess.spawn({
      ...variables,
      ...(destination === 'logging service' && { LOGGING_SERVICE_URL: url }),
    });
    await service.ready();
  });

  afterAll(async () => {
    service.kill('SIGKILL');
    await service.exited();
    logging.closeAllConnections();
    logging.close();
    await database.drop();
  });

  /** Sends any request, also a malformed one. */
  const send = async (method: string, path: string, headers: Headers, body = ''): Promise<Answer> => {
    const length = body === '' ? {} : { 'content-length': String(Buffer.byteLength(body)) };
    const outgoing = httpRequest(`${service.url}${path}`, { method, headers: { ...length, ...headers } });
    outgoing.end(body);
    const [response] = (await once(outgoing, 'response')) as [IncomingMessage];
    let answered = '';
    for await (const chunk of response) answered += String(chunk);
    return { status: response.statusCode!, text: JSON.stringify(response.headers) + answered, body: answered };
  };

  /** Waits for a line of this test, and so for every line before it. */
  const written = async (): Promise<string> => {
    const marker = `written-${process.hrtime.bigint()}`;
    await send('GET', '/health/live', { 'x-request-id': marker });
    while (!(service.output + shipped).includes(marker)) await new Promise((resolve) => setImmediate(resolve));
    return service.output + shipped;
  };

  const inEveryHeader = async (method: string, path: string): Promise<Answer[]> => {
    const answers: Answer[] = [];
    for (const name of HEADERS) {
      answers.push(await send(method, path, { [name]: name === 'authorization' ? `Bearer ${HOSTILE}` : HOSTILE }));
    }
    return answers;
  };

  const inEveryField = async (method: string, path: string, fields: object): Promise<Answer[]> => {
    const bodies = [{ [HOSTILE]: HOSTILE }, [CANARY], fields].map((body) => JSON.stringify(body));
    const headers = { 'content-type': 'application/json', 'x-admin-key': ADMIN_KEY };
    const answers: Answer[] = [];
    for (const body of [...bodies, `{"x":"${CANARY}`]) answers.push(await send(method, path, headers, body));
    return answers;
  };

  it('in any header, path, query or field of any route appears in no response and in no log line', async () => {
    const document = JSON.parse((await send('GET', '/docs-json', {})).body) as OpenAPIObject;
    const fields = everyField(document);
    const answers: Answer[] = [];
    for (const [template, item] of Object.entries(document.paths)) {
      const path = `${template.replace(/\{\w+\}/g, encodeURIComponent(HOSTILE))}?${CANARY}=${CANARY}&limit=${CANARY}`;
      for (const method of Object.keys(item).map((name) => name.toUpperCase())) {
        answers.push(...(await inEveryHeader(method, path)), ...(await inEveryField(method, path, fields)));
      }
    }
    for (const path of [`/${CANARY}`, `/api/v0/users/%E0%A4%A${CANARY}`, `/internal/${CANARY}?${CANARY}`]) {
      answers.push(await send('GET', path, {}));
    }
    const json = { 'content-type': 'application/json' };
    for (const headers of [
      { 'content-type': `text/${CANARY}` },
      { 'content-type': `application/json; charset=${CANARY}` },
      { ...json, 'content-encoding': CANARY },
    ]) {
      answers.push(await send('POST', '/api/v0/auth/login', headers, '{}'));
    }
    expect(answers.length).toBeGreaterThan(400);
    // A gateway that does not name its service gets a 503, which is not a verdict.
    const isGateways = (body: string): boolean => body.includes(toProblemType(problems.gatewayMisconfigured));
    expect(answers.filter(({ status, body }) => status >= 500 && !isGateways(body))).toEqual([]);
    expect(answers.filter(({ text }) => text.includes(CANARY))).toEqual([]);
    expect(await written()).not.toContain(CANARY);
    expect(shipped === '').toBe(destination === 'console');
  });

  it('with line breaks or escape codes stays within one log line', async () => {
    const nasty = 'line\r\n{"level":60,"msg":"forged"}\u001b[2J\u0000\u2028\u0007';
    const escaped = encodeURIComponent(nasty);
    const headers = { 'content-type': 'application/json', 'x-admin-key': ADMIN_KEY };
    for (const path of [
      '/api/v0/auth/login',
      '/api/v0/auth/refresh',
      '/internal/validate-app',
      '/api/v0/admin/nodes',
    ]) {
      const fields = {
        email: nasty,
        password: nasty,
        refresh_token: nasty,
        target: nasty,
        room: nasty,
        [nasty]: nasty,
      };
      await send('POST', `${path}?${escaped}`, headers, JSON.stringify(fields));
    }
    await send('GET', `/api/v0/admin/nodes/${escaped}?cursor=${escaped}`, headers);
    await send('GET', `/${escaped}`, { 'x-request-id': '%0d%0aforged', 'user-agent': '\u009b2J' });
    const log = await written();
    const lines = log.split('\n').filter((line) => line !== '');
    for (const line of lines) expect(line).toMatch(/^\{.*\}$/);
    // eslint-disable-next-line no-control-regex
    expect(lines.join('')).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]/);
    expect(log).not.toContain('forged');
  });
});
