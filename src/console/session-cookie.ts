/** The cookie that names the session of a browser. */
import type { Request } from 'express';
import { ConsoleRefusalError } from './console-requests.js';

const TOKEN = /^[\w-]{43}$/;
/** Browsers resolve every name below `localhost` to loopback (RFC 6761 §6.3), and keep the cookies of each apart. */
const LOOPBACK = /^(([\w-]+\.)*localhost|127(\.\d{1,3}){3}|\[::1\])$/;

/**
 * Browsers refuse a cookie with this prefix when it was set without TLS, by another host, or with a narrower path.
 * Without TLS only loopback is served, where the path keeps the cookie from pages of other programs.
 */
function chooseCookie(request: Request): { name: string; path: string; isSecure: boolean } {
  if (request.secure) return { name: '__Host-console', path: '/', isSecure: true };
  if (LOOPBACK.test(request.hostname)) return { name: 'console', path: '/console', isSecure: false };
  const advice = 'Open the console with https, or on 127.0.0.1 of this machine, such as through an SSH tunnel.';
  throw new ConsoleRefusalError(403, 'The console needs TLS', advice);
}

export function readCookie(request: Request): string | undefined {
  const { name } = chooseCookie(request);
  const cookies = (request.headers.cookie ?? '').split(/; */).map((each) => each.split('=', 2));
  const [[, token] = [], ...others] = cookies.filter(([each]) => each === name);
  const advice =
    'Another program of this machine set a cookie of that name. Delete the cookies of this address in the browser, or open the ' +
    'console under a name of its own, such as auth.localhost.';
  if (others.length > 0) throw new ConsoleRefusalError(400, 'Two sessions in one request', advice);
  return token !== undefined && TOKEN.test(token) ? token : undefined;
}

/** @param token undefined to delete the cookie */
export function setCookie(request: Request, token: string | undefined): void {
  const { name, path, isSecure } = chooseCookie(request);
  const options = { path, httpOnly: true, sameSite: 'strict', secure: isSecure } as const;
  if (token === undefined) request.res?.clearCookie(name, options);
  else request.res?.cookie(name, token, options);
}
