import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { findFreePort } from '../src/foundation/embedded-postgres/embedded-postgres.js';

/**
 * @returns a port of the loopback address that is not given to another caller while this process runs, so that a server may
 * be started on it later, and again. The UDP port of the same number is the token of the claim.
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
