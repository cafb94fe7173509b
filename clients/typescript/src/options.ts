import { VerifierConfigurationError } from './errors.js';
import { isAppKey, OwnKey, readKeyFile } from './own-key.js';
import type { Door } from './principals.js';
import type { Verdict } from './verdict-counts.js';

/** Where the verifier writes its events. It never receives a credential. */
export interface VerifierLogger {
  warn(event: string, fields: Readonly<Record<string, unknown>>): void;
}

export interface VerifierOptions {
  /** Address of the authentication service. */
  readonly url: string;
  /** This service's own key for the authentication service: the text, or a file that contains it. */
  readonly appId: string;
  readonly appKey?: string | undefined;
  /**
   * The file is read again when the authentication service refuses the key, because a mounted Secret changes while the
   * process runs.
   */
  readonly appKeyFile?: string | undefined;
  /** The name of this service in the map of the platform: only keys for this target are accepted. */
  readonly serviceName: string;
  /** Verifies HS256 access tokens. */
  readonly secretKey?: string | undefined;
  /** Verifies HS256 tokens of the previous secret, while the secret is rotated. */
  readonly secretKeyPrevious?: string | undefined;
  /**
   * Verifies ES256 access tokens. With neither a secret nor this URL, the authentication service verifies each token
   * once.
   */
  readonly jwksUrl?: string | undefined;
  /** The `iss` of access tokens, as JWT_ISSUER of the authentication service. Default: platform-auth. */
  readonly issuer?: string | undefined;
  /**
   * The `aud` of access tokens, as JWT_AUDIENCE of the authentication service. Without it, tokens with an audience are
   * refused.
   */
  readonly audience?: string | undefined;
  /**
   * How many seconds longer remembered verdicts may be used while the authentication service is unreachable; a revoked
   * credential may be accepted during them. At most 60. Default: 0.
   */
  readonly outageGraceSeconds?: number | undefined;
  /** Remembered credentials of each kind; the least recently used is evicted. Default: 100,000. */
  readonly maxEntries?: number | undefined;
  /**
   * Questions of each door (apps, nodes, users) that are in flight or wait; further requests get a 503. Credentials
   * that were valid recently go first, and other callers share the rest by their networks. Default: 256.
   */
  readonly maxQuestions?: number | undefined;
  /** Called at every verdict, for counters of your own. The verifier counts too: `readCounts`. */
  readonly onVerdict?: ((door: Door, verdict: Verdict) => void) | undefined;
  /** By default, JSON lines on standard error. */
  readonly logger?: VerifierLogger | undefined;
}

type Key = 'appKey' | 'appKeyFile';
type Optional = 'secretKey' | 'secretKeyPrevious' | 'jwksUrl' | 'audience' | 'onVerdict';

/** The options with every default filled in. */
export type Settings = {
  readonly [Name in Exclude<keyof VerifierOptions, Optional | Key>]-?: NonNullable<VerifierOptions[Name]>;
} & Pick<VerifierOptions, Optional> & { readonly ownKey: OwnKey };

const DEFAULT_ISSUER = 'platform-auth';
const DEFAULT_MAX_ENTRIES = 100_000;
const DEFAULT_MAX_QUESTIONS = 256;
const MAX_OUTAGE_GRACE_SECONDS = 60;
const MIN_SECRET_BYTES = 32;
const SERVICE_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/;
const URL_REQUIREMENT = 'must be an http or https URL without a user and a query';
const ID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
/** A number in the text of a variable. */
const NUMBER = /^\d{1,9}(?:\.\d{1,9})?$/;

const CONSOLE: VerifierLogger = {
  warn: (event, fields) =>
    console.warn(JSON.stringify({ time: new Date().toISOString(), level: 'warn', event, ...fields })),
};

/** @throws {VerifierConfigurationError} naming every setting that is missing or not valid */
export function toSettings({ appKey, appKeyFile, ...options }: VerifierOptions): Settings {
  const key = appKeyFile === undefined ? appKey : readKeyFile(appKeyFile);
  const settings: Settings = {
    ...options,
    ownKey: new OwnKey(options.appId, key ?? '', appKeyFile),
    issuer: options.issuer ?? DEFAULT_ISSUER,
    outageGraceSeconds: options.outageGraceSeconds ?? 0,
    maxEntries: options.maxEntries ?? DEFAULT_MAX_ENTRIES,
    maxQuestions: options.maxQuestions ?? DEFAULT_MAX_QUESTIONS,
    logger: options.logger ?? CONSOLE,
  };
  const mistakes = [...findKeyMistakes({ appKey, appKeyFile }, key), ...findMistakes(settings)];
  if (mistakes.length > 0) throw new VerifierConfigurationError(mistakes.join('; '));
  return { ...settings, url: settings.url.replace(/\/+$/, ''), logger: toServiceLogger(settings) };
}

function findKeyMistakes({ appKey, appKeyFile }: Pick<VerifierOptions, Key>, key: unknown): string[] {
  if (appKey !== undefined && appKeyFile !== undefined)
    return ['appKey (AUTH_APP_KEY) and appKeyFile (AUTH_APP_KEY_FILE) exclude each other'];
  if (isAppKey(key)) return [];
  return [
    appKeyFile === undefined
      ? 'appKey (AUTH_APP_KEY) must be this service’s key for auth: pa_app_…'
      : 'appKeyFile (AUTH_APP_KEY_FILE) must be a readable file with this service’s key for auth: pa_app_…',
  ];
}

function findMistakes(settings: Settings): string[] {
  const { secretKey, secretKeyPrevious, jwksUrl, audience, outageGraceSeconds } = settings;
  const checks: readonly (readonly [string, boolean, string])[] = [
    ['url (AUTH_URL)', isHttpUrl(settings.url), URL_REQUIREMENT],
    ['appId (AUTH_APP_ID)', isMatch(ID, settings.appId), 'must be a UUID: the id of this service’s key for auth'],
    ['serviceName (SERVICE_NAME)', isServiceName(settings.serviceName), 'must be the name of this service'],
    ['jwksUrl (AUTH_JWKS_URL)', jwksUrl === undefined || isHttpUrl(jwksUrl), URL_REQUIREMENT],
    ['secretKey (SECRET_KEY)', secretKey === undefined || isSecret(secretKey), 'must have at least 32 bytes'],
    [
      'secretKeyPrevious (SECRET_KEY_PREVIOUS)',
      secretKeyPrevious === undefined || (secretKey !== undefined && isSecret(secretKeyPrevious)),
      'must have at least 32 bytes, and needs SECRET_KEY',
    ],
    ['issuer (JWT_ISSUER)', isText(settings.issuer), 'must be a string that is not empty'],
    ['audience (JWT_AUDIENCE)', audience === undefined || isText(audience), 'must be a string that is not empty'],
    [
      'outageGraceSeconds (AUTH_OUTAGE_GRACE_SECONDS)',
      typeof outageGraceSeconds === 'number' &&
        outageGraceSeconds >= 0 &&
        outageGraceSeconds <= MAX_OUTAGE_GRACE_SECONDS,
      'must be 0 to 60: nothing is remembered for longer',
    ],
    ['maxEntries', isPositive(settings.maxEntries), 'must be a positive integer'],
    ['maxQuestions', isPositive(settings.maxQuestions), 'must be a positive integer'],
    ['onVerdict', ['undefined', 'function'].includes(typeof settings.onVerdict), 'must be a function'],
    ['logger', isLogger(settings.logger), 'must have the method warn'],
  ];
  return checks.filter(([, isValid]) => !isValid).map(([name, , requirement]) => `${name} ${requirement}`);
}

/** Reads the variables that `platform-auth init` writes. An empty one counts as unset. */
export function readEnvironment(variables: NodeJS.ProcessEnv): VerifierOptions {
  const get = (name: string): string | undefined => variables[name]?.trim() || undefined;
  const grace = get('AUTH_OUTAGE_GRACE_SECONDS');
  const appKeyFile = get('AUTH_APP_KEY_FILE');
  const keys = appKeyFile === undefined ? ['AUTH_APP_KEY'] : [];
  const missing = ['AUTH_URL', 'AUTH_APP_ID', ...keys, 'SERVICE_NAME'].filter((name) => !get(name));
  if (missing.length > 0) throw new VerifierConfigurationError(`Not set: ${missing.join(', ')}`);
  return {
    url: get('AUTH_URL') ?? '',
    appId: get('AUTH_APP_ID') ?? '',
    appKey: get('AUTH_APP_KEY'),
    appKeyFile,
    serviceName: get('SERVICE_NAME') ?? '',
    // Not trimmed, because the service signs with every byte of them.
    secretKey: get('SECRET_KEY') && variables.SECRET_KEY,
    secretKeyPrevious: get('SECRET_KEY_PREVIOUS') && variables.SECRET_KEY_PREVIOUS,
    jwksUrl: get('AUTH_JWKS_URL'),
    issuer: get('JWT_ISSUER'),
    audience: get('JWT_AUDIENCE'),
    outageGraceSeconds: grace === undefined || NUMBER.test(grace) ? Number(grace ?? 0) : Number.NaN,
  };
}

/**
 * Refuses a user name and a password, which would be logged, and a URL to which a path cannot be appended. `unknown`,
 * here and below, because types do not bind callers in JavaScript.
 */
function isHttpUrl(text: unknown): boolean {
  if (typeof text !== 'string' || !URL.canParse(text) || /[?#]/.test(text)) return false;
  const { protocol, username, password } = new URL(text);
  return /^https?:$/.test(protocol) && username === '' && password === '';
}

function isMatch(pattern: RegExp, value: unknown): boolean {
  return typeof value === 'string' && pattern.test(value);
}

export function isServiceName(value: unknown): boolean {
  return isMatch(SERVICE_NAME, value);
}

function isSecret(value: unknown): boolean {
  return typeof value === 'string' && Buffer.byteLength(value) >= MIN_SECRET_BYTES;
}

function isText(value: unknown): boolean {
  return typeof value === 'string' && value !== '';
}

function isLogger(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'warn' in value && typeof value.warn === 'function';
}

/** Adds the name of the service to each event. Catches errors of the logger, which must not end the polls. */
function toServiceLogger({ logger, serviceName }: Settings): VerifierLogger {
  const warn: VerifierLogger['warn'] = (event, fields) => {
    try {
      logger.warn(event, { service: serviceName, ...fields });
    } catch (error) {
      console.error('The logger of the verifier failed:', error);
    }
  };
  return { warn };
}

function isPositive(value: unknown): boolean {
  return Number.isSafeInteger(value) && (value as number) > 0;
}
