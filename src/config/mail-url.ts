import { isIP } from 'node:net';
import { accepted, isHttpUrl, parsed } from './variable-kinds.js';

// MAIL_URL and what belongs to it. A parameter that nodemailer would take from the URL could weaken TLS silently, so
// only `tls` is supported, and the URL is taken apart here.

const SCHEMES: Readonly<Record<string, { readonly port: number; readonly isTlsFromStart: boolean }>> = {
  'smtp:': { port: 587, isTlsFromStart: false },
  'smtps:': { port: 465, isTlsFromStart: true },
};
const URL_DETAIL = 'must be smtp(s)://user:password@host:port, with ?tls=required or ?tls=off at most';
const SENDER_DETAIL = 'must be an address, or a name and an address: Example <accounts@example.org>';
const ADDRESS = /^[^\s"<>(),:;@\\]{1,64}@[A-Za-z0-9.-]{1,190}$/;
const NAME = /^[^\p{Cc}\p{Cf}"<>\\]{1,100}$/u;
const LOCALHOST_NAMES = new Set(['localhost', 'localhost.']);

export interface MailServer {
  readonly host: string;
  readonly port: number;
  /** `implicit`: from the first byte. `starttls`: refused without it. `off`: plain text. */
  readonly tls: 'implicit' | 'starttls' | 'off';
  readonly login: { readonly user: string; readonly password: string } | undefined;
}

export interface MailSender {
  readonly name: string;
  readonly address: string;
}

function isLoopback(host: string): boolean {
  if (LOCALHOST_NAMES.has(host)) return true;
  return (isIP(host) === 4 && host.startsWith('127.')) || host === '::1';
}

function parseMailUrl(text: string): MailServer | undefined {
  if (!URL.canParse(text)) return undefined;
  const { protocol, hostname, port, username, password, pathname, hash, searchParams } = new URL(text);
  const scheme = SCHEMES[protocol];
  const host = decode(hostname.replace(/^\[|\]$/g, ''));
  const [user, secret] = [decode(username), decode(password)];
  const [parameter, ...others] = searchParams;
  if (!scheme || !host || user === undefined || secret === undefined) return undefined;
  if ((pathname !== '' && pathname !== '/') || hash !== '' || others.length > 0) return undefined;
  if (parameter && !(parameter[0] === 'tls' && ['required', 'off'].includes(parameter[1]))) return undefined;
  if (scheme.isTlsFromStart && parameter?.[1] === 'off') return undefined;
  if ((user === '') !== (secret === '')) return undefined;
  const isPlain = parameter ? parameter[1] === 'off' : isLoopback(host);
  return {
    host,
    port: port === '' ? scheme.port : Number(port),
    tls: scheme.isTlsFromStart ? 'implicit' : isPlain ? 'off' : 'starttls',
    login: user === '' ? undefined : { user, password: secret },
  };
}

function decode(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

function parseSender(text: string): MailSender | undefined {
  const [, name = '', named] = /^([^<]*)<([^>]*)>$/.exec(text) ?? [];
  const address = named ?? text;
  const isNamed = named === undefined || NAME.test(name.trim());
  return ADDRESS.test(address) && isNamed ? { name: name.trim(), address } : undefined;
}

export const mailUrl = parsed('smtp(s) URL', URL_DETAIL, parseMailUrl);
export const mailSender = parsed('an address, or a name and an address', SENDER_DETAIL, parseSender);

/** Without a colon, which separates the issuer from the account in the URI of authenticator apps. */
export const productName = accepted(
  '1–100 visible characters without quotes, angle brackets, backslashes and colons',
  'must be 1 to 100 visible characters without quotes, angle brackets, backslashes and colons',
  (text) => NAME.test(text) && text.trim() === text && !text.includes(':'),
);

export const linkUrl = accepted(
  'http(s) URL without a fragment',
  'must be an http(s) URL without a fragment, which the token is put into',
  (text) => isHttpUrl(text) && !text.includes('#'),
);
