/** Addresses of the console's pages. */
export const LOGIN = '/console/login';
export const PASSKEYS = '/console/passkeys';

/** @returns the address with the parameters that have a value */
export function toAddress(address: string, parameters: object): string {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== '');
  const query = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return query === '' ? address : `${address}?${query}`;
}

/**
 * @returns the page of the console to show after the login, and never an address of another site (open redirect, ASVS
 * 3.7.2)
 */
export function toNextPage(next: unknown): string {
  if (typeof next !== 'string' || !/^\/[\w/?=&.:%*+-]*$/.test(next)) return '/console';
  // Parsed as the browser will, because dot segments, even encoded ones, lead elsewhere.
  const { origin, pathname, search } = new URL(next, 'http://console');
  const isOfConsole = pathname === '/console' || pathname.startsWith('/console/');
  return origin === 'http://console' && isOfConsole && pathname !== LOGIN ? pathname + search : '/console';
}
