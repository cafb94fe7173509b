import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';

/** Starts a server on loopback that answers as the test says. */
export async function serve(answer: RequestListener): Promise<{ url: string; close: () => void }> {
  // Idle connections stay open, because a server in a process without CPU may close one just as the caller sends
  // (ECONNRESET).
  const server = createServer({ keepAliveTimeout: 0 }, answer);
  await once(server.listen(0, '127.0.0.1').unref(), 'listening');
  const close = (): void => {
    server.close();
    server.closeAllConnections();
  };
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, close };
}
