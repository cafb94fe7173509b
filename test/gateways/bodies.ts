// Bodies reach the upstream as the client sent them. A connection that switches to another protocol is a tunnel, in which the
// gateway sees no requests: with h2c, the client would send any identity on it.
import { createHash, randomBytes } from 'node:crypto';
import { DOORS, type World, type Headers } from './world.js';
import { expectEqual, expectIdentity, identityOf, send, sendRaw } from './http.js';
import type { Gateway } from './gateways.js';

const LARGE_BODY_BYTES = 20_000_000;
/** HAProxy can remove trailers since 3.2. */
const PASSES_TRAILERS_ON: readonly string[] = ['HAProxy'];

export async function checkBodies({ name, port }: Gateway, { checks, credentials, upstream }: World): Promise<void> {
  const bodies = {
    form: ['application/x-www-form-urlencoded', Buffer.from('a=1&target=speech&b=%zz')],
    '20 MB': ['application/octet-stream', randomBytes(LARGE_BODY_BYTES)],
  } as const;
  for (const [kind, [type, body]] of Object.entries(bodies)) {
    await checks.run(`${name}: passes a ${kind} body on unchanged`, async () => {
      for (const door of DOORS) {
        const { good, identity } = credentials[door];
        const headers = [['Content-Type', type], ...good] as const;
        const received = expectIdentity(
          await send(port, { method: 'POST', path: `/${door}/x`, headers, body }),
          identity,
        );
        expectEqual(received.sha256, createHash('sha256').update(body).digest('hex'));
      }
    });
  }
  await checks.run(`${name}: passes a chunked body on unchanged`, async () => {
    const { good } = credentials.node;
    const lines = good.map(([header, value]) => `${header}: ${value}`);
    const chunked = ['Transfer-Encoding: chunked', 'Connection: close', '', '5', 'hello', '0', ''];
    expectEqual(await sendRaw(port, ['POST /node/x HTTP/1.1', 'Host: a', ...lines, ...chunked]), 200);
  });
  const outcome = PASSES_TRAILERS_ON.includes(name) ? 'passes trailers on as trailers' : 'removes trailers';
  await checks.run(`${name}: ${outcome}`, async () => {
    const trailer = ['x-auth-user-id', 'forged'] as const;
    for (const door of DOORS) {
      const { good, identity } = credentials[door];
      const lines = good.map(([header, value]) => `${header}: ${value}`);
      const head = ['Transfer-Encoding: chunked', `Trailer: ${trailer[0]}`, 'Connection: close', ''];
      const body = ['5', 'hello', '0', trailer.join(': '), ''];
      upstream.seen.length = 0;
      expectEqual(await sendRaw(port, [`POST /${door}/x HTTP/1.1`, 'Host: a', ...lines, ...head, ...body]), 200);
      const [received] = upstream.seen;
      if (!received) throw new Error('The upstream has seen nothing');
      expectEqual(identityOf(received), identity);
      expectEqual(received.trailers, PASSES_TRAILERS_ON.includes(name) ? [trailer] : []);
    }
  });
}

const H2C = 'Upgrade: h2c';
const WEBSOCKET = 'Upgrade: websocket';
/** Without these, HAProxy refuses the request itself. */
const HANDSHAKE = ['Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==', 'Sec-WebSocket-Version: 13'];
const SETTINGS = 'HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA';
const BOTH = ['Connection: Upgrade, HTTP2-Settings', SETTINGS, ...HANDSHAKE];

const UPGRADES: Readonly<Record<string, readonly string[]>> = {
  'to h2c': ['Connection: Upgrade, HTTP2-Settings', H2C, SETTINGS],
  'to h2c with settings that Connection does not name': ['Connection: Upgrade', H2C, SETTINGS],
  'in small letters': ['connection: upgrade, http2-settings', H2C.toLowerCase(), SETTINGS],
  'in two Connection lines': ['Connection: Upgrade', 'Connection: HTTP2-Settings', H2C, SETTINGS],
  'to WebSocket': ['Connection: Upgrade', WEBSOCKET, ...HANDSHAKE],
  'to WebSocket, then h2c in a second line': [...BOTH, WEBSOCKET, H2C],
  'to h2c, then WebSocket in a second line': [...BOTH, H2C, WEBSOCKET],
  'to either in one line': [...BOTH, 'Upgrade: websocket, h2c'],
};

export async function checkUpgrades(gateway: Gateway, world: World): Promise<void> {
  const { checks, credentials } = world;
  await checks.run(`${gateway.name}: passes no upgrade on from an open path`, () =>
    expectNoUpgrade(gateway, world, { path: '/open/x', headers: [] }),
  );
  for (const door of DOORS) {
    await checks.run(`${gateway.name}, ${door}: passes no upgrade on with a valid credential`, () =>
      expectNoUpgrade(gateway, world, { path: `/${door}/x`, headers: credentials[door].good }),
    );
  }
}

async function expectNoUpgrade(
  { port }: Gateway,
  { upstream }: World,
  { path, headers }: { readonly path: string; readonly headers: Headers },
): Promise<void> {
  const odd: string[] = [];
  for (const [form, lines] of Object.entries(UPGRADES)) {
    upstream.seen.length = 0;
    const credential = headers.map(([name, value]) => `${name}: ${value}`);
    const status = await sendRaw(port, [`GET ${path} HTTP/1.1`, 'Host: a', ...credential, ...lines]);
    const left = upstream.seen.flatMap((request) => request.headers).filter(isOfUpgrade);
    if (status !== 200 || left.length > 0) odd.push(`${form}: ${status}, the upstream saw ${JSON.stringify(left)}`);
  }
  if (odd.length > 0) throw new Error(odd.join('\n'));
}

function isOfUpgrade([name, value]: readonly [string, string]): boolean {
  return name === 'upgrade' || name === 'http2-settings' || (name === 'connection' && /upgrade|http2/i.test(value));
}
