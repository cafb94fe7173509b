import { isIP } from 'node:net';

/**
 * What of an address counts as one caller: an IPv4 address, or the /64 of an IPv6 one, which whoever has one address
 * of it has all of. An IPv4 address in IPv6 clothes is the IPv4 address.
 * @param address as Express gives it: the peer's, or the one that TRUST_PROXY makes it believe
 */
export function networkOf(address: string | undefined): string {
  const plain = (address ?? '').replace(/%.*$/, '').toLowerCase();
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/.exec(plain)?.[1];
  if (mapped !== undefined) return mapped;
  const version = isIP(plain);
  if (version === 4) return plain;
  // A trusted proxy that passes on what is no address: everyone there shares one count.
  return version === 6 ? `${groupsOf(plain).slice(0, 4).join(':')}::/64` : 'unknown';
}

/** The eight groups, without leading zeros. */
function groupsOf(address: string): string[] {
  // The URL parser writes every form of an address in the one of RFC 5952.
  const [head = '', tail] = new URL(`http://[${address}]`).hostname.slice(1, -1).split('::');
  const [left, right] = [head, tail ?? ''].map((part) => (part === '' ? [] : part.split(':')));
  if (!left || !right || tail === undefined) return left ?? [];
  return [...left, ...Array.from({ length: 8 - left.length - right.length }, () => '0'), ...right];
}
