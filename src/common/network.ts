import { isIP } from 'node:net';

/** The narrowest first. */
export type Networks = readonly [string, ...string[]];

/**
 * The network that counts as one client: an IPv4 address, or the /64 of an IPv6 address, because a client that has one
 * address of a /64 has all of them. An IPv4-mapped IPv6 address counts as its IPv4 address.
 * @param address as Express gives it: the peer's, or the one that TRUST_PROXY makes it believe
 */
export function toNetwork(address: string | undefined): string {
  return toNetworks(address)[0];
}

/**
 * The networks of an address, the narrowest first. IPv6 has a second one, the /48 that one customer of a provider
 * commonly gets (RFC 6177): its 65,536 networks of /64 must not be as many clients.
 */
export function toNetworks(address: string | undefined): Networks {
  const plain = (address ?? '').replace(/%.*$/, '').toLowerCase();
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/.exec(plain)?.[1];
  if (mapped !== undefined) return [mapped];
  const version = isIP(plain);
  if (version === 4) return [plain];
  // A trusted proxy that passes on what is not an address: all of its clients share one count.
  if (version !== 6) return ['unknown'];
  const groups = groupsOf(plain);
  return [`${groups.slice(0, 4).join(':')}::/64`, `${groups.slice(0, 3).join(':')}::/48`];
}

/** The eight groups, without leading zeros. */
function groupsOf(address: string): string[] {
  // The URL parser writes every form of an address in the one of RFC 5952.
  const [head = '', tail] = new URL(`http://[${address}]`).hostname.slice(1, -1).split('::');
  const [left, right] = [head, tail ?? ''].map((part) => (part === '' ? [] : part.split(':')));
  if (!left || !right || tail === undefined) return left ?? [];
  return [...left, ...Array.from({ length: 8 - left.length - right.length }, () => '0'), ...right];
}
