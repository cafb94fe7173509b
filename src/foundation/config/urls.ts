import * as z from 'zod';
import { isLoopback } from '../common/network.js';
import { accepted, isHttpUrl, parsed } from './variable-kinds.js';

// DATABASE_URL: the driver ignores unknown parameters silently, and lets others override settings of this service. So
// each parameter is either supported or refused by its name. https://www.postgresql.org/docs/current/libpq-connect.html

/** The driver supports these as libpq does, unless docs/operations/high-availability.md says otherwise. */
const SUPPORTED = new Set(
  (
    'application_name fallback_application_name host options password port ssl sslcert sslkey sslmode sslnegotiation ' +
    'sslrootcert uselibpqcompat user'
  ).split(' '),
);

const INSTEAD = new Map(
  (
    [
      ['target_session_attrs load_balance_hosts', 'the service works on a primary only, and asks for it itself'],
      ['connect_timeout statement_timeout lock_timeout query_timeout', 'the service has a fixed timeout'],
      ['idle_in_transaction_session_timeout', 'the service has a fixed timeout'],
      ['keepalives keepalives_idle keepalives_interval keepalives_count', 'TCP keepalive is always on'],
      ['tcp_user_timeout', 'the driver has no such setting'],
      ['dbname', 'write the name of the database behind the host: postgresql://host/database'],
      ['hostaddr', 'write the address as the host'],
      ['client_encoding', 'it is always UTF8'],
      ['channel_binding', 'the driver does not bind channels; use sslmode=verify-full'],
      ['require_auth', 'the driver cannot restrict the method'],
      ['sslpassword', 'the driver needs a key without a passphrase'],
      ['sslcrl sslcrldir', 'the driver reads no revocation lists'],
      ['gssencmode krbsrvname', 'the driver does not speak GSSAPI'],
      ['passfile', 'put the password into DATABASE_URL'],
      ['service', 'put its settings into DATABASE_URL'],
      ['replication', 'the service needs an ordinary connection'],
    ] as const
  ).flatMap(([names, instead]) => names.split(' ').map((name) => [name, instead] as const)),
);

const SSL_MODES = new Set(['disable', 'prefer', 'require', 'verify-ca', 'verify-full', 'no-verify']);
/** With any other value, such as `false`, the driver throws outside of a promise, which would end the process. */
const SSL_VALUES = new Set(['true', '1', '0']);
const SEVERAL_HOSTS =
  'names several hosts, which the driver does not support: name one address that leads to the primary (HAProxy, ' +
  'PgBouncer in session mode, or the virtual address of your cluster; deploy/ha/ has examples)';

/** @returns why the service cannot use the URL; it quotes only names of known parameters */
function findObjection(value: string): string | undefined {
  if (hasSeveralHosts(value)) return SEVERAL_HOSTS;
  const url = URL.canParse(value) ? new URL(value) : undefined;
  if (url === undefined || !/^postgres(ql)?:$/.test(url.protocol))
    return 'must be a PostgreSQL URL: postgresql://user:password@host:5432/database';
  if (url.hash !== '') return 'contains a #, which ends a URL: write it as %23';
  const names = [...url.searchParams.keys()];
  for (const name of names) {
    if (SUPPORTED.has(name)) continue;
    const instead = INSTEAD.get(name);
    // Does not quote the name, which may be part of a password that is not percent-encoded.
    return instead === undefined
      ? `has a parameter that this service does not know; it knows ${[...SUPPORTED].join(', ')}`
      : `has ${name}, which would be ignored: ${instead}, and remove it`;
  }
  const repeated = names.find((name, index) => names.indexOf(name) !== index);
  if (repeated !== undefined) return `has ${repeated} more than once`;
  const sslMode = url.searchParams.get('sslmode');
  if (sslMode !== null && !SSL_MODES.has(sslMode)) return `has an sslmode other than ${[...SSL_MODES].join(', ')}`;
  const ssl = url.searchParams.get('ssl');
  if (ssl !== null && !SSL_VALUES.has(ssl)) return 'has an ssl that the driver does not understand: use sslmode';
  return undefined;
}

/** Checks the authority, because a list of hosts may not parse as a URL. A password may contain a comma. */
function hasSeveralHosts(value: string): boolean {
  const [, authority = '', , query = ''] = /^postgres(?:ql)?:\/\/([^/?#]*)([^?#]*)\??([^#]*)/.exec(value) ?? [];
  const hosts = authority.slice(authority.lastIndexOf('@') + 1);
  const parameters = new URLSearchParams(query);
  return [hosts, ...parameters.getAll('host'), ...parameters.getAll('port')].some((text) => text.includes(','));
}

export const postgresUrl = z
  .string({ error: 'is required (postgresql://user:password@host:5432/database)' })
  .superRefine((value, context) => {
    const message = findObjection(value);
    if (message !== undefined) context.addIssue({ code: 'custom', message });
  })
  .meta({ bounds: '`postgresql://…`' });

// MAIL_URL: parameters that nodemailer reads from a URL could weaken TLS silently. So this service parses the URL
// itself, and supports `tls` only.

const SCHEMES: Readonly<Record<string, { readonly port: number; readonly isTlsFromStart: boolean }>> = {
  'smtp:': { port: 587, isTlsFromStart: false },
  'smtps:': { port: 465, isTlsFromStart: true },
};
const URL_DETAIL = 'must be smtp(s)://user:password@host:port, with ?tls=required or ?tls=off at most';
const SENDER_DETAIL = 'must be an address, or a name and an address: Example <accounts@example.org>';
const ADDRESS = /^[^\s"<>(),:;@\\]{1,64}@[A-Za-z0-9.-]{1,190}$/;
const NAME = /^[^\p{Cc}\p{Cf}"<>\\]{1,100}$/u;

export interface MailServer {
  readonly host: string;
  readonly port: number;
  /** `implicit`: TLS from the first byte. `starttls`: TLS is required before anything is sent. `off`: plain text. */
  readonly tls: 'implicit' | 'starttls' | 'off';
  readonly login: { readonly user: string; readonly password: string } | undefined;
}

export interface MailSender {
  readonly name: string;
  readonly address: string;
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
  const isPlain = parameter ? parameter[1] === 'off' : host === 'localhost.' || isLoopback(host);
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

/** Excludes the colon, which separates the issuer from the account in the URI of authenticator apps. */
export const productName = accepted(
  '1–100 visible characters without quotes, angle brackets, backslashes and colons',
  (text) => NAME.test(text) && text.trim() === text && !text.includes(':'),
);

export const linkUrl = accepted(
  'http(s) URL without a fragment',
  (text) => isHttpUrl(text) && !text.includes('#'),
  'must be an http(s) URL without a fragment, which the token is put into',
);
