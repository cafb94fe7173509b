import { isIP } from 'node:net';
import type { Request } from 'express';

const ADDRESS = Symbol('address');

/**
 * @returns the IP address of the client. A proxy may write a port or any text into X-Forwarded-For: text that is not an
 * address is ignored, and the address of the peer is used
 */
export function getClientAddress(request: Request & { [ADDRESS]?: string | undefined }): string | undefined {
  return (request[ADDRESS] ??= stripPort(request.ip ?? '') ?? request.socket.remoteAddress);
}

function stripPort(ip: string): string | undefined {
  const bare = /^\[(.+)\](?::\d+)?$/.exec(ip)?.[1] ?? /^([\d.]+):\d+$/.exec(ip)?.[1] ?? ip;
  return isIP(bare) === 0 ? undefined : bare;
}
