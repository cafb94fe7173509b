import type { PresentedRequest } from './presented-request.js';

/** Of an IPv6 address: a customer commonly has a /48 (RFC 6177), and with it every address in it. */
const GROUPS_OF_NETWORK = 3;
/** Unique local and link-local addresses (RFC 4193, RFC 4291 §2.5.6): one network of a house or a platform has many callers. */
const LOCAL = /^f(?:[cd]|e[89ab])/;

/** @returns what counts as one caller; empty when the address is not known */
export function readNetwork({ ip, socket }: PresentedRequest): string {
  const address = (ip ?? socket?.remoteAddress ?? '').toLowerCase();
  const mapped = /^::ffff:([\d.]+)$/.exec(address)?.[1];
  if (mapped !== undefined || !address.includes(':') || LOCAL.test(address)) return mapped ?? address;
  // Node.js writes an address in one way (RFC 5952). Zeros that it leaves out at most double the networks of a customer.
  return address.split(':', GROUPS_OF_NETWORK).join(':');
}
