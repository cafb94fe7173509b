import { once } from 'node:events';
import { createServer, isIP } from 'node:net';
import type { Request } from 'express';

/** The networks that contain one address, the narrowest first. */
export type Networks = readonly [string, ...string[]];

/** @returns the network that counts as one client, the narrowest one of {@link toNetworks} */
export function toNetwork(address: string | null | undefined): string {
  return toNetworks(address)[0];
}

/**
 * Returns an IPv4 address, or the /64 and the /48 of an IPv6 address. A client with one address of a /64 has all of
 * them, and a customer commonly gets a /48 (RFC 6177), which must not count as 65,536 clients.
 * @param address as Express reports it: the peer's, or with TRUST_PROXY the one in X-Forwarded-For
 */
export function toNetworks(address: string | null | undefined): Networks {
  const plain = (address ?? '').replace(/%.*$/, '').toLowerCase();
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/.exec(plain)?.[1];
  if (mapped !== undefined) return [mapped];
  const version = isIP(plain);
  if (version === 4) return [plain];
  // Clients share one count when a trusted proxy passes on text that is not an address.
  if (version !== 6) return ['unknown'];
  const groups = parseGroups(plain);
  return [`${groups.slice(0, 4).join(':')}::/64`, `${groups.slice(0, 3).join(':')}::/48`];
}

/** Listens on a port, and closes it. @throws with the error of the operating system when it cannot be opened */
export async function probePort(port: number, host: string): Promise<void> {
  const probe = createServer();
  await once(probe.listen(port, host), 'listening');
  await once(probe.close(), 'close');
}

/** @param host as in a URL, where an IPv6 address may have brackets */
export function isLoopback(host: string): boolean {
  const address = host.replace(/^\[|\]$/g, '');
  return address === 'localhost' || address === '::1' || (isIP(address) === 4 && address.startsWith('127.'));
}

/** @returns a host as a URL has it: an IPv6 address in brackets */
export function bracketHost(host: string): string {
  return isIP(host) === 6 ? `[${host}]` : host;
}

/** The eight groups, without leading zeros. */
function parseGroups(address: string): string[] {
  // The URL parser normalizes every notation to the one of RFC 5952.
  const [head = '', tail] = new URL(`http://[${address}]`).hostname.slice(1, -1).split('::');
  const [left, right] = [head, tail ?? ''].map((part) => (part === '' ? [] : part.split(':')));
  if (!left || !right || tail === undefined) return left ?? [];
  return [...left, ...Array.from({ length: 8 - left.length - right.length }, () => '0'), ...right];
}

const ADDRESS = Symbol('address');

/** @returns the address of the client; that of the peer when a proxy wrote other text into X-Forwarded-For */
export function getClientAddress(request: Request & { [ADDRESS]?: string | undefined }): string | undefined {
  return (request[ADDRESS] ??= stripPort(request.ip ?? '') ?? request.socket.remoteAddress);
}

function stripPort(ip: string): string | undefined {
  const bare = /^\[(.+)\](?::\d+)?$/.exec(ip)?.[1] ?? /^([\d.]+):\d+$/.exec(ip)?.[1] ?? ip;
  return isIP(bare) === 0 ? undefined : bare;
}
