import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Counter, Registry } from 'prom-client';
import { WebSocket, WebSocketServer } from 'ws';
import type { VerificationError } from '../src/errors.js';
import { Verifier } from '../src/verifier.js';
import { fromRoot } from '../../../test/support/from-root.js';

describe('the README', () => {
  it('has at most 60 lines', () => {
    const lines = readFileSync(fromRoot('clients/typescript/README.md'), 'utf8').trimEnd().split('\n');
    expect(lines.length).toBeLessThanOrEqual(60);
  });
});

describe('the examples of docs/verifiers.md', () => {
  const registry = new Registry();
  const verdicts = new Counter({
    name: 'platform_auth_verdicts_total',
    help: 'Verdicts',
    labelNames: ['door', 'verdict'],
    registers: [registry],
  });
  const auth = Verifier.forTests({ onVerdict: (door, verdict) => verdicts.inc({ door, verdict }) });
  const alice = auth.issueUser();
  const sockets = new WebSocketServer({ noServer: true });
  let server: Server;

  beforeAll(async () => {
    server = createServer();
    server.on('upgrade', (request, socket, head) => {
      void auth
        .verifyUser(request)
        .then(
          () => undefined,
          (error: unknown) => (error as Partial<VerificationError>).status ?? 503,
        )
        .then((refusal) => {
          if (refusal) return void socket.end(`HTTP/1.1 ${refusal} Not accepted\r\nConnection: close\r\n\r\n`);
          sockets.handleUpgrade(request, socket, head, (connection) => {
            const watch = auth.onEnded(request, () => connection.close(4401));
            connection.on('close', () => watch.close());
          });
        });
    });
    await once(server.listen(0, '127.0.0.1'), 'listening');
  });

  afterAll(() => {
    sockets.close();
    server.close();
    auth.close();
  });

  const connect = (headers: Readonly<Record<string, string>>): WebSocket =>
    new WebSocket(`ws://127.0.0.1:${(server.address() as AddressInfo).port}`, { headers });

  it('refuse a WebSocket with 401, and one that cannot be verified with 503', async () => {
    const [refused] = (await once(connect({}), 'error')) as [Error];
    expect(refused.message).toMatch(/401/);
    auth.setAvailable(false);
    const [unavailable] = (await once(connect(alice.headers), 'error')) as [Error];
    auth.setAvailable(true);
    expect(unavailable.message).toMatch(/503/);
  });

  it('close a WebSocket when the session of its user has ended', async () => {
    const connection = connect(alice.headers);
    const closed = once(connection, 'close');
    await once(connection, 'open');
    auth.revoke(alice);
    expect((await closed)[0]).toBe(4401);
  });

  it('count verdicts with prom-client', async () => {
    const { headers } = auth.issueNode();
    await auth.verifyNode({ headers });
    await expect(auth.verifyApp({ headers: {} })).rejects.toMatchObject({ status: 401 });
    const text = await registry.metrics();
    expect(text).toContain('platform_auth_verdicts_total{door="node",verdict="accepted"} 1');
    expect(text).toContain('platform_auth_verdicts_total{door="app",verdict="refused"} 1');
  });
});
