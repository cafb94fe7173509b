import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import type { OpenAPIObject } from '@nestjs/swagger';
import { serve } from '../../support/serve.js';
import { ServiceProcess } from '../../support/service-process.js';
import { ADMIN_KEY, VARIABLES } from '../../support/settings.js';
import { createTestDatabase, type TestDatabase } from '../../support/test-database.js';
import { IS_NIGHTLY } from '../../../tools/nightly.js';
import { problems, toProblemType } from '../../../src/foundation/problems/problems.js';

type Headers = Record<string, string>;

const OPERATOR = { 'content-type': 'application/json', 'x-admin-key': ADMIN_KEY };

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
    expect(names).toEqual(
      expect.arrayContaining(['email', 'password', 'refresh_token', 'room', 'target', 'is_active']),
    );
    return Object.fromEntries(names.map((name) => [name, HOSTILE]));
  }

  let database: TestDatabase;
  let logging: { url: string; close: () => void };
  let service: ServiceProcess;
  let shipped = '';

  beforeAll(async () => {
    database = await createTestDatabase();
    logging = await serve((request, response) => {
      request.on('data', (chunk: Buffer) => (shipped += chunk.toString()));
      request.on('end', () => response.end());
    });
    const variables = { ...VARIABLES, LOG_LEVEL: 'debug', DATABASE_URL: database.url };
    service = await ServiceProcess.start({
      ...variables,
      ...(destination === 'logging service' && { LOGGING_SERVICE_URL: logging.url }),
    });
  });

  afterAll(async () => {
    service.kill('SIGKILL');
    await service.exited();
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

  const inEveryHeader = (method: string, path: string): Promise<Answer>[] =>
    HEADERS.map((name) => send(method, path, { [name]: name === 'authorization' ? `Bearer ${HOSTILE}` : HOSTILE }));

  const inEveryField = (method: string, path: string, fields: object): Promise<Answer>[] => {
    const bodies = [{ [HOSTILE]: HOSTILE }, [CANARY], fields].map((body) => JSON.stringify(body));
    return [...bodies, `{"x":"${CANARY}`].map((body) => send(method, path, OPERATOR, body));
  };

  it('in any header, path, query or field of any route appears in no response and in no log line', async () => {
    const document = JSON.parse((await send('GET', '/docs-json', {})).body) as OpenAPIObject;
    const fields = everyField(document);
    const answers: Answer[] = [];
    // What is logged does not depend on the destination, so only one of them gets it for every path.
    const isSample = destination !== 'console' && !IS_NIGHTLY;
    const paths = Object.entries(document.paths).filter((_, index) => !isSample || index % 4 === 0);
    for (const [template, item] of paths) {
      const path = `${template.replace(/\{\w+\}/g, encodeURIComponent(HOSTILE))}?${CANARY}=${CANARY}&limit=${CANARY}`;
      for (const method of Object.keys(item).map((name) => name.toUpperCase())) {
        answers.push(...(await Promise.all([...inEveryHeader(method, path), ...inEveryField(method, path, fields)])));
      }
    }
    const unrouted = [`/${CANARY}`, `/api/v0/users/%E0%A4%A${CANARY}`, `/internal/${CANARY}?${CANARY}`];
    for (const path of [...unrouted, `/api/v0/admin/nodes?cursor=${CANARY}`])
      answers.push(await send('GET', path, OPERATOR));
    for (const headers of [
      { 'content-type': `text/${CANARY}` },
      { 'content-type': `application/json; charset=${CANARY}` },
      { ...OPERATOR, 'content-encoding': CANARY },
    ])
      answers.push(await send('POST', '/api/v0/auth/login', headers, '{}'));
    expect(answers.length).toBeGreaterThan(isSample ? 200 : 800);
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
    const fields = { email: nasty, password: nasty, refresh_token: nasty, target: nasty, room: nasty, [nasty]: nasty };
    for (const path of ['/api/v0/auth/login', '/api/v0/auth/refresh', '/internal/validate-app', '/api/v0/admin/nodes'])
      await send('POST', `${path}?${escaped}`, OPERATOR, JSON.stringify(fields));
    await send('GET', `/api/v0/admin/nodes/${escaped}?cursor=${escaped}`, OPERATOR);
    await send('GET', `/${escaped}`, { 'x-request-id': '%0d%0aforged', 'user-agent': '\u009b2J' });
    const log = await written();
    const lines = log.split('\n').filter((line) => line !== '');
    for (const line of service.lines.filter(Boolean))
      expect(JSON.parse(line)).toMatchObject({ service: 'platform-auth', msg: expect.any(String) });
    for (const line of lines) expect(line).toMatch(/^\{.*\}$/);
    // oxlint-disable-next-line no-control-regex
    expect(lines.join('')).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]/);
    expect(log).not.toContain('forged');
  });

  it('never contains a secret that the service created or received', async () => {
    const post = async (
      path: string,
      body: object | undefined,
      headers: Headers = {},
    ): Promise<Record<string, string>> => {
      const sent = body && JSON.stringify(body);
      const answer = await send('POST', path, { 'content-type': 'application/json', ...headers }, sent);
      return answer.body === '' ? {} : (JSON.parse(answer.body) as Record<string, string>);
    };
    const person = { email: `${randomUUID()}@example.org`, password: `${CANARY} passphrase` };
    await post('/api/v0/auth/register', person);
    await post('/api/v0/auth/login', { ...person, email: `${randomUUID()}@example.org` });
    const tokens = await post('/api/v0/auth/login', person);
    const bearer = { authorization: `Bearer ${tokens.access_token}`, 'user-agent': `${CANARY} agent` };
    const change = { current_password: `${CANARY} wrong`, new_password: `${CANARY} new passphrase` };
    await post('/api/v0/users/me/password', change, bearer);
    await post('/api/v0/users/me/password', { ...change, current_password: person.password }, bearer);
    await post('/api/v0/users/me/delete', { password: change.current_password }, bearer);
    const node = await post(
      '/api/v0/admin/nodes',
      { household_id: randomUUID(), room: 'hall', name: 'lamp' },
      OPERATOR,
    );
    const app = await post('/api/v0/admin/app-credentials', { caller: 'ocr', target: 'auth' }, OPERATOR);
    await post('/internal/validate-node', undefined, { 'x-api-key': `${node.node_id}:${node.api_key}` });
    await send('GET', '/api/v0/users/me', { authorization: `Bearer ${tokens.access_token}` });
    const log = await written();
    const secrets = [person.password, tokens.access_token, tokens.refresh_token, node.api_key, app.app_key, ADMIN_KEY];
    for (const secret of [
      ...secrets,
      ...Object.values(change),
      bearer['user-agent'],
      VARIABLES.SECRET_KEY,
      VARIABLES.MASTER_KEY,
    ]) {
      expect(secret).toBeTruthy();
      expect(log).not.toContain(secret);
    }
    expect(log).not.toContain(person.email);
  });
});
