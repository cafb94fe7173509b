// What the environment file of a dependent takes over so that its verifier (clients/) works: the service's own name and how
// auth signs access tokens. A service embeds a verifier when `auth` is among its calls: the verifier polls and asks with the
// service's own key for auth. Secrets and addresses are delivered elsewhere (init.delivery.ts, platform-map.ts).
import { overrideVariables, readVariables } from '../../config/environment.js';
import type { EnvFile } from '../../config/env-file.js';
import { parseTokenSettings, type TokenSettings } from '../../config/single-variables.js';
import { OWN_NAME, OWN_URL_VARIABLE, type MappedService, type PlatformMap } from './platform-map.js';

const JWKS_URL_VARIABLE = 'AUTH_JWKS_URL';
export const JWKS_PATH = '/.well-known/jwks.json';
const TOKEN_VARIABLES = ['ACCESS_TOKEN_ALGORITHM', 'JWT_ISSUER', 'JWT_AUDIENCE'];
/** What verifiers require when they have no JWT_ISSUER. */
const DEFAULT_ISSUER = parseTokenSettings({}).issuer;

/** How this service signs access tokens, and where the others find its public keys. */
export interface TokenRules extends TokenSettings {
  readonly jwksUrl: string;
}

interface Setting {
  readonly variable: string;
  readonly value: string;
}

/**
 * Reads the rules from the environment of this process, or else from this service's own file.
 * @throws {InvalidEnvironmentError}
 */
export function readTokenRules(map: PlatformMap, own: EnvFile | undefined): TokenRules {
  const filed = Object.fromEntries(TOKEN_VARIABLES.map((name) => [name, own?.get(name)]));
  return toTokenRules(map, parseTokenSettings(overrideVariables(filed, readVariables(own?.path))));
}

/** The rules of a service that sets none of the variables. */
export function createDefaultRules(map: PlatformMap): TokenRules {
  return toTokenRules(map, parseTokenSettings({}));
}

function toTokenRules(map: PlatformMap, settings: TokenSettings): TokenRules {
  const url = map.services.find(({ name }) => name === OWN_NAME)?.url ?? '';
  return { ...settings, jwksUrl: url.replace(/\/$/, '') + JWKS_PATH };
}

function hasVerifier({ calls }: MappedService): boolean {
  return calls.includes(OWN_NAME);
}

/** The variables of a verifier that the map and the rules determine, and their values. */
export function listVerifierSettings(service: MappedService, rules: TokenRules): Setting[] {
  const settings: Setting[] = [];
  if (hasVerifier(service)) settings.push({ variable: 'SERVICE_NAME', value: service.name });
  if (needsJwksUrl(service, rules)) settings.push({ variable: JWKS_URL_VARIABLE, value: findJwksUrl(service, rules) });
  if (!hasVerifier(service)) return settings;
  if (rules.issuer !== DEFAULT_ISSUER) settings.push({ variable: 'JWT_ISSUER', value: rules.issuer });
  if (rules.audience !== undefined) settings.push({ variable: 'JWT_AUDIENCE', value: rules.audience });
  return settings;
}

/** The claims that the service's verifier requires and that auth does not write: with them it refuses every token. */
export function listStrayClaims(service: MappedService, file: EnvFile, rules: TokenRules): string[] {
  if (!hasVerifier(service)) return [];
  const issuer = file.get('JWT_ISSUER');
  return [
    ...(rules.issuer === DEFAULT_ISSUER && issuer !== undefined && issuer !== DEFAULT_ISSUER ? ['JWT_ISSUER'] : []),
    ...(rules.audience === undefined && file.get('JWT_AUDIENCE') !== undefined ? ['JWT_AUDIENCE'] : []),
  ];
}

/** The keys of the JWKS are public, so that every verifier may have them; a map that names the address itself decides. */
function needsJwksUrl(service: MappedService, { algorithm }: TokenRules): boolean {
  const isMapped = service.urls.some(({ variable }) => variable === JWKS_URL_VARIABLE);
  const isVerifying = service.name !== OWN_NAME && (hasVerifier(service) || service.verifiesAccessTokens);
  return algorithm === 'ES256' && isVerifying && !isMapped;
}

/** At the address by which the service reaches auth: the map may give it one with a path. */
function findJwksUrl({ urls }: MappedService, { jwksUrl }: TokenRules): string {
  const own = urls.find(({ variable }) => variable === OWN_URL_VARIABLE);
  return own ? own.url.replace(/\/$/, '') + JWKS_PATH : jwksUrl;
}
