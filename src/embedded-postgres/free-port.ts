import { once } from 'node:events';
import { createServer } from 'node:net';
import { generateFraction } from '../crypto/secret.js';

/** Below the ports that systems assign to connections, and to servers that ask for any port: on Linux from 32768 on. */
const FIRST_PORT = 20_000;
const LAST_PORT = 32_767;
const MAX_ATTEMPTS = 100;

/** @returns a port of the loopback address that was free a moment ago, and that the system assigns to no other process */
export async function freePort(): Promise<number> {
  for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt += 1) {
    const port = FIRST_PORT + Math.round(generateFraction() * (LAST_PORT - FIRST_PORT));
    if (await isFree(port)) return port;
  }
  throw new Error(`No free port was found from ${FIRST_PORT} to ${LAST_PORT}`);
}

async function isFree(port: number): Promise<boolean> {
  const probe = createServer();
  try {
    await once(probe.listen(port, '127.0.0.1'), 'listening');
  } catch {
    return false;
  }
  await once(probe.close(), 'close');
  return true;
}
