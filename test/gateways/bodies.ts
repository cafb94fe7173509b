// Bodies reach the upstream as the client sent them.
import { createHash, randomBytes } from 'node:crypto';
import { DOORS } from './credentials.js';
import { expectEqual, expectIdentity, identityOf } from './expectations.js';
import type { Gateway } from './gateways.js';
import { send, sendRaw } from './http.js';
import type { World } from './world.js';

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
