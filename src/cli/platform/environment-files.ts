import { join } from 'node:path';
import { NotRegularFileError } from '../../common/durable-file.js';
import {
  type TokenSettings,
  type Variables,
  overrideVariables,
  parseDatabaseUrl,
  parseTokenSettings,
  readProcessVariables,
  readVariables,
  toFileVariable,
} from '../../config/environment.js';
import { EnvFile } from '../../config/env-file.js';
import {
  credentialVariables,
  OWN_NAME,
  type MappedService,
  type PlatformMap,
  OWN_URL_VARIABLE,
} from './platform-map.js';
import { describeCause } from '../failures.js';
import { CommandFailedError } from '../output.js';

const DATABASE_VARIABLES = ['DATABASE_URL', toFileVariable('DATABASE_URL')];
/** Secrets that commands read from this file itself. */
const KEPT_IN_ENV_FILE = ['SECRET_KEY', 'SECRET_KEY_PREVIOUS', 'ADMIN_API_KEY', 'LOGGING_APP_KEY'];

export type EnvFiles = ReadonlyMap<string, EnvFile>;

export function resolveEnvPath(envDir: string, service: string): string {
  return join(envDir, `${service}.env`);
}

/** @throws {CommandFailedError} when the path of a service's file exists and is not a regular file */
export function readEnvFiles(map: PlatformMap, envDir: string): EnvFiles {
  return new Map(map.services.map(({ name }) => [name, readEnvFile(envDir, name)]));
}

/** @throws {CommandFailedError} when the file is not a regular file, or leaves to another file what init writes */
export function readEnvFile(envDir: string, service: string): EnvFile {
  const file = openEnvFile(resolveEnvPath(envDir, service));
  const variable = KEPT_IN_ENV_FILE.map(toFileVariable).find((name) => file.get(name) !== undefined);
  if (service === OWN_NAME && variable !== undefined)
    throw new CommandFailedError(
      `${file.path} sets ${variable}, and this command keeps that secret in ${file.path} itself: put the value there, remove ${variable}, and run this again.`,
      'secret_elsewhere',
    );
  return file;
}

function openEnvFile(path: string): EnvFile {
  try {
    return EnvFile.read(path);
  } catch (error) {
    throw new CommandFailedError(
      `${describeUnreadable(path, error)}. Replace it by a regular file, or remove it, and run this again.`,
      'file_unusable',
    );
  }
}

export function describeUnreadable(name: string, error: unknown): string {
  return error instanceof NotRegularFileError ? error.message : `${name} cannot be read: ${describeCause(error)}`;
}

/**
 * The variables for working on the database: of this process, or else of this service's own file.
 * @throws {InvalidEnvironmentError} when neither has a usable DATABASE_URL
 * @throws {CommandFailedError} when the file does not exist either: most likely a typing error in --env-dir
 */
export function databaseVariables(own: EnvFile | undefined): Variables & { readonly DATABASE_URL: string } {
  // In production the service does not read it, but this command was given the file by --env-dir.
  const filed = Object.fromEntries(DATABASE_VARIABLES.map((name) => [name, own?.get(name)]));
  const variables = overrideVariables(filed, readGivenVariables(own));
  if (own?.exists === false && DATABASE_VARIABLES.every((name) => variables[name] === undefined))
    throw new CommandFailedError(
      `${own.path} does not exist, and DATABASE_URL is not set. Is --env-dir right? ` +
        'On the first run, give DATABASE_URL in the environment.',
      'strange_env_dir',
    );
  return { DATABASE_URL: parseDatabaseUrl(variables) };
}

/** Never those of the `.env` in the current folder, which may belong to another database. */
function readGivenVariables(own: EnvFile | undefined): Variables {
  return own ? readVariables(own.path) : readProcessVariables();
}

/** Whether the service's file has to hold the key that signs access tokens. Under ES256 only this service has it. */
export function needsSecretKey({ name, verifiesAccessTokens }: MappedService, { algorithm }: TokenRules): boolean {
  return name === OWN_NAME || (verifiesAccessTokens && algorithm === 'HS256');
}

export function needsAdminKey({ name, adminEndpoints }: MappedService): boolean {
  return adminEndpoints || name === OWN_NAME;
}

/** Whether the file gives a variable, or names the file of its value. */
export function isSetIn(file: EnvFile, name: string): boolean {
  return file.get(name) !== undefined || file.get(toFileVariable(name)) !== undefined;
}

/** Names of the variables that a service's file must set, by the map. */
export function listRequiredVariables(service: MappedService, rules: TokenRules): string[] {
  return [
    ...(service.name === OWN_NAME ? ['DATABASE_URL'] : []),
    ...(needsSecretKey(service, rules) ? ['SECRET_KEY'] : []),
    ...(needsAdminKey(service) ? ['ADMIN_API_KEY'] : []),
    ...service.urls.map(({ variable }) => variable),
    ...listVerifierSettings(service, rules).map(({ variable }) => variable),
    ...service.calls.flatMap((target) => Object.values(credentialVariables(target))),
  ];
}

// What the environment file of a dependent takes over so that its verifier (clients/) works: the service's own name and how
// auth signs access tokens. A service embeds a verifier when `auth` is among its calls: the verifier polls and asks with the
// service's own key for auth. Secrets and addresses are delivered elsewhere (init.ts, platform-map.ts).

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
  return toTokenRules(map, parseTokenSettings(overrideVariables(filed, readGivenVariables(own))));
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
