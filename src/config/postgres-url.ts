import * as z from 'zod';

// DATABASE_URL. The driver silently ignores parameters that it does not know, and lets a parameter override a setting
// of this service. So each parameter is either supported or refused by name.
// https://www.postgresql.org/docs/current/libpq-connect.html

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
/** With another value, such as `false`, the driver throws outside of any promise, which would end the process. */
const SSL_VALUES = new Set(['true', '1', '0']);
const SEVERAL_HOSTS =
  'names several hosts, which the driver does not support: name one address that leads to the primary (HAProxy, ' +
  'PgBouncer in session mode, or the virtual address of your cluster; deploy/ha/ has examples)';

/** @returns why the service cannot use the URL; of its value only the names of known parameters are quoted */
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
    // The name itself may be part of a password that is not percent-encoded.
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

/**
 * Looks into the authority, because several hosts may not parse as a URL, and into parameters. A password may contain a
 * comma.
 */
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
