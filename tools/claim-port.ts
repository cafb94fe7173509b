import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { findFreePort } from '../src/foundation/embedded-postgres/embedded-postgres.js';

/**
 * @returns a loopback port that no other caller gets while this process runs, so that a server can be started on it
 * later, and again. The claim is the UDP port of the same number.
 */
export async function claimPort(): Promise<number> {
  for (;;) {
    const port = await findFreePort();
    if (await holdToken(port)) return port;
  }
}

async function holdToken(port: number): Promise<boolean> {
  const token = createSocket('udp4').unref();
  try {
    token.bind({ port, address: '127.0.0.1', exclusive: true });
    await once(token, 'listening');
    return true;
  } catch {
    token.close();
    return false;
  }
}
