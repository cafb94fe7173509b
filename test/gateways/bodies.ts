// Bodies reach the upstream as the client sent them.
import { createHash, randomBytes } from 'node:crypto';
import { DOORS } from './credentials.js';
import { expectEqual, expectIdentity } from './expectations.js';
import type { Gateway } from './gateways.js';
import { send, sendRaw } from './http.js';
import type { World } from './world.js';

const LARGE_BODY_BYTES = 20_000_000;

export async function checkBodies({ name, port }: Gateway, { checks, credentials }: World): Promise<void> {
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
}
