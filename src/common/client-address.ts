import { isIP } from 'node:net';
import type { Request } from 'express';

const ADDRESS = Symbol('address');

/**
 * Where a request comes from. What a proxy writes into X-Forwarded-For may carry a port, or be anything: whatever is no
 * address counts for nothing, and the peer's own address stands in.
 */
export function getClientAddress(request: Request & { [ADDRESS]?: string | undefined }): string | undefined {
  return (request[ADDRESS] ??= bareAddress(request.ip ?? '') ?? request.socket.remoteAddress);
}

function bareAddress(ip: string): string | undefined {
  const bare = /^\[(.+)\](?::\d+)?$/.exec(ip)?.[1] ?? /^([\d.]+):\d+$/.exec(ip)?.[1] ?? ip;
  return isIP(bare) === 0 ? undefined : bare;
}
