import { isLoopback } from '../common/network.js';
import type { Environment } from './environment.js';

/** A setting that is allowed, and that production should not have. */
export interface WeakSetting {
  readonly variable: string;
  /** What is weak, and what to do. */
  readonly detail: string;
}

const MIN_BCRYPT_COST = 10;
const MIN_PASSWORD_LENGTH = 8;
const TLS_MODES: readonly (string | null)[] = ['require', 'verify-ca', 'verify-full', 'no-verify'];

/**
 * Lists the settings of production that OWASP ASVS 5.0 objects to (6.2.1, 6.2.4, 6.4.6, 11.4.2, 12.3). None of them
 * stops the start: each is accepted by the specification, and a platform within one machine needs no TLS.
 */
export function listWeakSettings(environment: Environment): WeakSetting[] {
  if (environment.nodeEnv !== 'production') return [];
  const found: WeakSetting[] = [];
  const add = (isWeak: boolean, variable: string, detail: string): void => {
    if (isWeak) found.push({ variable, detail });
  };
  const { bcryptCost, passwordMinLength, passwordBlocklist, adminSetPasswords } = environment;
  const tls = 'the connection to PostgreSQL is not encrypted for certain: add sslmode=verify-full to the URL';
  add(isPlainDatabase(environment.databaseUrl), 'DATABASE_URL', tls);
  const urls = {
    LOGGING_SERVICE_URL: environment.loggingServiceUrl,
    PASSWORD_RESET_URL: environment.passwordResetUrl,
    EMAIL_VERIFICATION_URL: environment.emailVerificationUrl,
    PASSWORD_BREACH_CHECK_URL: environment.passwordBreachCheckUrl,
  };
  for (const [name, url] of Object.entries(urls)) add(isPlainHttp(url), name, 'it is not encrypted: use https://');
  const cost = `each hash costs an attacker little: set at least ${MIN_BCRYPT_COST}; logins raise the stored hashes`;
  add(bcryptCost < MIN_BCRYPT_COST, 'BCRYPT_COST', cost);
  const length = `shorter passwords are guessed: set at least ${MIN_PASSWORD_LENGTH}`;
  add(passwordMinLength < MIN_PASSWORD_LENGTH, 'PASSWORD_MIN_LENGTH', length);
  const blocklist = 'the passwords that attackers try first are accepted: set common, or a file of your own';
  add(passwordBlocklist === 'off', 'PASSWORD_BLOCKLIST', blocklist);
  const known = 'operators may choose and so know the password of a user: set refused, and users are invited';
  add(adminSetPasswords === 'allowed', 'ADMIN_SET_PASSWORDS', known);
  return found;
}

/** Off loopback and off sockets, `prefer` and a missing mode accept a server without TLS. */
function isPlainDatabase(text: string): boolean {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url) return false;
  const { searchParams } = url;
  const host = searchParams.get('host') ?? decodeURIComponent(url.hostname);
  const isLocal = host === '' || host.startsWith('/') || isLoopback(host);
  const hasTls =
    TLS_MODES.includes(searchParams.get('sslmode')) || ['true', '1'].includes(searchParams.get('ssl') ?? '');
  return !isLocal && !hasTls;
}

function isPlainHttp(text: string | undefined): boolean {
  return text !== undefined && text.startsWith('http:') && !isLoopback(new URL(text).hostname);
}
