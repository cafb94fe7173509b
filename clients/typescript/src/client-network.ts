import type { PresentedRequest } from './presented-request.js';

/** A customer commonly has an IPv6 /48 (RFC 6177), and with it every address in it. */
const GROUPS_OF_NETWORK = 3;
/** Unique local and link-local addresses (RFC 4193, RFC 4291 §2.5.6), where many callers share one network. */
const LOCAL = /^f(?:[cd]|e[89ab])/;

/** @returns what counts as one caller; empty when the address is not known */
export function readNetwork({ ip, socket }: PresentedRequest): string {
  const address = (ip ?? socket?.remoteAddress ?? '').toLowerCase();
  const mapped = /^::ffff:([\d.]+)$/.exec(address)?.[1];
  if (mapped !== undefined || !address.includes(':') || LOCAL.test(address)) return mapped ?? address;
  // A prefix of the text is enough, because Node.js writes addresses in one way (RFC 5952). The zeros that it leaves
  // out at most double the networks of a customer.
  return address.split(':', GROUPS_OF_NETWORK).join(':');
}
