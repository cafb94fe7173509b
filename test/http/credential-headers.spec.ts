import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { connect, type AddressInfo } from 'node:net';
import { ADMIN_KEY } from '../support/settings.js';
import { useApp } from '../support/use-app.js';

interface Door {
  readonly header: string;
  readonly method: string;
  readonly path: string;
  readonly more?: string[];
}

const ID = randomUUID();
const DOORS: Door[] = [
  { header: 'X-API-Key', method: 'POST', path: '/internal/validate-node' },
  { header: 'X-Admin-Key', method: 'GET', path: '/api/v0/admin/nodes' },
  { header: 'Authorization', method: 'GET', path: '/api/v0/users/me' },
  { header: 'X-Platform-App-Id', method: 'POST', path: '/internal/validate-app', more: ['X-Platform-App-Key: k'] },
  { header: 'X-Platform-App-Key', method: 'POST', path: '/internal/validate-app', more: [`X-Platform-App-Id: ${ID}`] },
];

describe.each(DOORS)('$header at $method $path', ({ header, method, path, more = [] }) => {
  const app = useApp();

  /** Sends raw header bytes. */
  const raw = async (...values: string[]): Promise<string> => {
    const socket = connect((app.server.address() as AddressInfo).port, '127.0.0.1');
    const lines = [`${method} ${path} HTTP/1.1`, 'Host: localhost', 'Connection: close', 'Content-Length: 0', ...more];
    socket.write(
      Buffer.from(`${[...lines, ...values.map((value) => `${header}: ${value}`)].join('\r\n')}\r\n\r\n`, 'latin1'),
    );
    let answer = '';
    socket.on('data', (chunk) => (answer += chunk.toString('latin1')));
    await once(socket, 'close');
    return answer;
  };

  it.each([
    ['is absent', undefined],
    ['is empty', ''],
    ['is blank', '   '],
    ['has 8 KB', 'x'.repeat(8_192)],
    ['has 8 KB behind an id', `${ID}:${'x'.repeat(8_000)}`],
    ['has bytes that are no UTF-8', '\xff\xfe:\xc3\x28'],
    ['has UTF-8 in it', Buffer.from('ключ:ключ').toString('latin1')],
    ['has a tab in it', 'a\tb:c'],
    ['has a comma in it', 'a:b, a:b'],
    ['looks like SQL', `' OR 1=1 --:x`],
    ['names a prototype', '__proto__:constructor'],
  ])('is a 401 that does not repeat it when it %s', async (_name, value) => {
    const answer = await (value === undefined ? raw() : raw(value));
    expect(answer).toMatch(/^HTTP\/1\.1 401 [^]*\r\nContent-Type: application\/problem\+json/);
    expect(answer).toMatch(/\r\nWWW-Authenticate: /);
    if (value !== undefined && value.trim().length > 5) expect(answer).not.toContain(value);
  });

  it.each([
    ['a NUL', 'a\u0000b'],
    ['an escape code', 'a\u001b[31m'],
    ['a line break without the rest of one', 'a\rb'],
  ])('is a 400 when it contains %s', async (_name, value) => {
    expect(await raw(value)).toMatch(/^HTTP\/1\.1 400 [^]*application\/problem\+json/);
  });

  it.each([path, '/health/live', '/nowhere', '/docs-json'])('is a 400 when sent twice to %s', async (to) => {
    const { port } = app.server.address() as AddressInfo;
    const good = header === 'X-Admin-Key' ? ADMIN_KEY : 'a:b';
    for (const values of [
      [good, good],
      [good, ''],
      ['', good],
      ['a', 'b', 'c'],
      [good, ...Array<string>(1_500).fill('filler'), good],
    ]) {
      const flat = values.flatMap((value, i) =>
        value === 'filler' ? ['a', 'b'] : [i % 2 ? header.toLowerCase() : header, value],
      );
      const headers = ['Host', 'localhost', ...flat];
      const outgoing = httpRequest({ port, host: '127.0.0.1', path: to, headers: headers });
      outgoing.end();
      const [response] = (await once(outgoing, 'response')) as [IncomingMessage];
      let text = '';
      for await (const chunk of response) text += String(chunk);
      expect({ values, status: response.statusCode }).toEqual({ values, status: 400 });
      expect(text).toContain('duplicate_header');
    }
  });
});
