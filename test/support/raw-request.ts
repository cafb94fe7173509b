import { connect, type AddressInfo } from 'node:net';
import type { TestApp } from './test-app.js';

/**
 * Sends lines as a request, without checking them.
 * @returns the response, byte for byte (Latin-1)
 */
export async function sendRaw({ server }: TestApp, ...lines: string[]): Promise<string> {
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
  socket.write(Buffer.from(`${[...lines, 'Connection: close'].join('\r\n')}\r\n\r\n`, 'latin1'));
  let response = '';
  for await (const chunk of socket) response += (chunk as Buffer).toString('latin1');
  return response;
}
