// The environment files of a platform: how they are read, and which variables the map and auth.env determine.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { NotRegularFileError } from '../../foundation/common/durable-file.js';
import {
  type TokenSettings,
  type Variables,
  overrideVariables,
  parseVariable,
  parseTokenSettings,
  readProcessVariables,
  readVariables,
  toFileVariable,
} from '../../foundation/config/environment.js';
import { EnvFile } from '../../foundation/config/env-file.js';
import {
  MASTER_KEY,
  NODE_TARGETS,
  OWN_NAME,
  OWN_URL_VARIABLE,
  type MappedService,
  type PlatformMap,
} from './platform-map.js';
import { CommandFailedError } from '../terminal.js';
import { describeCause } from '../failures.js';

const DATABASE_VARIABLES = ['DATABASE_URL', toFileVariable('DATABASE_URL')];
const TOKEN_VARIABLES = ['ACCESS_TOKEN_ALGORITHM', 'JWT_ISSUER', 'JWT_AUDIENCE'];
/** Commands read and write these secrets in auth.env, so they cannot be in a file that it names. */
const KEPT_IN_ENV_FILE = ['SECRET_KEY', 'SECRET_KEY_PREVIOUS', 'ADMIN_API_KEY', 'LOGGING_APP_KEY'];

/** The variables of one service, in a file of any format. */
export interface ServiceFile extends Pick<
  EnvFile,
  'path' | 'exists' | 'get' | 'set' | 'remove' | 'changes' | 'needsWriting' | 'rehearseWrite'
> {
  /** Whether it goes to standard output, whose reader may lose it. */
  readonly isStream?: boolean;
  /** Whether it is written even without a change, because the reader of a stream needs all documents. */
  readonly isRepeated?: boolean;
  write(heading: string): void | Promise<void>;
}

/** Readable by its owner only, because the files hold keys. */
export function createEnvFolder(path: string): void {
  mkdirSync(path, { recursive: true, mode: 0o700 });
}

export function resolveEnvPath(envDir: string, service: string): string {
  return join(envDir, `${service}.env`);
}

/** @throws {CommandFailedError} when the path of a service's file exists and is not a regular file */
export function readEnvFiles(map: PlatformMap, envDir: string): ReadonlyMap<string, EnvFile> {
  return new Map(map.services.map(({ name }) => [name, readEnvFile(envDir, name)]));
}

/** @throws {CommandFailedError} when it is not a regular file, or names a file for a secret that must be in it */
export function readEnvFile(envDir: string, service: string): EnvFile {
  const path = resolveEnvPath(envDir, service);
  const file = readOrExplain(path, (name) => EnvFile.read(name));
  const variable = KEPT_IN_ENV_FILE.map(toFileVariable).find((name) => file.get(name) !== undefined);
  if (service === OWN_NAME && variable !== undefined)
    throw new CommandFailedError(
      `${path} sets ${variable}, and this command keeps that secret in ${path} itself: put the value there, remove ${variable}, and run this again.`,
      'secret_elsewhere',
    );
  return file;
}

export function readOrExplain<File>(path: string, read: (path: string) => File): File {
  try {
    return read(path);
  } catch (error) {
    const { what, remedy } = describeUnreadable(path, error);
    throw new CommandFailedError(`${what} ${remedy}`, 'file_unusable');
  }
}

/** The remedy is not to remove the file: it holds keys, and this user may only lack the permission to read it. */
export function describeUnreadable(name: string, error: unknown): { what: string; remedy: string } {
  if (error instanceof NotRegularFileError)
    return { what: `${error.message}.`, remedy: 'Replace it by a regular file, or remove it, and run this again.' };
  const remedy = 'Give this user the right to read it, and run this again. Do not remove it: it holds keys.';
  return { what: `${name} cannot be read: ${describeCause(error)}.`, remedy };
}

/** Whether the file sets the variable, or names the file that holds its value. */
export function isSetIn(file: Pick<ServiceFile, 'get'>, name: string): boolean {
  return file.get(name) !== undefined || file.get(toFileVariable(name)) !== undefined;
}

/**
 * Reads variables of this process, or else of auth.env in --env-dir. The `.env` of the current folder is not read,
 * because it may belong to another database.
 */
export function readOwnVariables(own: EnvFile | undefined, names: readonly string[]): Variables {
  const filed = Object.fromEntries(names.map((name) => [name, own?.get(name)]));
  return overrideVariables(filed, own ? readVariables(own.path) : readProcessVariables());
}

/**
 * The variables of the database, of this process or else of auth.env.
 * @throws {InvalidEnvironmentError} when neither has a usable DATABASE_URL
 * @throws {CommandFailedError} when the file does not exist either: most likely --env-dir is mistyped
 */
export function readDatabaseVariables(own: EnvFile | undefined): Variables & { readonly DATABASE_URL: string } {
  const variables = readOwnVariables(own, DATABASE_VARIABLES);
  if (own?.exists === false && DATABASE_VARIABLES.every((name) => variables[name] === undefined))
    throw new CommandFailedError(
      `${own.path} does not exist, and DATABASE_URL is not set. Is --env-dir right? ` +
        'On the first run, give DATABASE_URL in the environment.',
      'strange_env_dir',
    );
  return { DATABASE_URL: parseVariable(variables, 'DATABASE_URL') };
}

const JWKS_URL_VARIABLE = 'AUTH_JWKS_URL';
export const JWKS_PATH = '/.well-known/jwks.json';
/** The rules of a service that sets none of these variables. A verifier without JWT_ISSUER requires this issuer. */
export const DEFAULT_TOKENS = parseTokenSettings({});

/** How this service signs access tokens, and where the others find it. */
export interface TokenRules extends TokenSettings {
  readonly url: string;
}

/** @throws {InvalidEnvironmentError} */
export function readTokenRules(map: PlatformMap, own: EnvFile | undefined): TokenRules {
  return createTokenRules(map, parseTokenSettings(readOwnVariables(own, TOKEN_VARIABLES)));
}

export function createTokenRules(map: PlatformMap, settings = DEFAULT_TOKENS): TokenRules {
  const url = map.services.find(({ name }) => name === OWN_NAME)?.url ?? '';
  return { ...settings, url: url.replace(/\/$/, '') };
}

/** Values by the name of their variable. Undefined accepts the value of the file, or else generates one. */
export type FileSettings = Readonly<Record<string, string | undefined>>;

/**
 * @param own the file of auth, whose secrets other services share
 * @param fresh the first values of a new file of auth
 * @returns what the file of a service must set besides its credentials, in the order in which `init` writes it
 */
export function listSettings(
  service: MappedService,
  file: ServiceFile,
  own: EnvFile | undefined,
  rules: TokenRules,
  fresh?: Readonly<Record<'databaseUrl' | 'secretKey', string>>,
): FileSettings {
  const isOwn = service.name === OWN_NAME;
  const previousSecretKey = own?.get('SECRET_KEY_PREVIOUS');
  return {
    ...(isOwn && { DATABASE_URL: isSetIn(file, 'DATABASE_URL') ? undefined : fresh?.databaseUrl }),
    ...(isSecretKeyNeeded(service, rules) && {
      SECRET_KEY: own?.get('SECRET_KEY') ?? fresh?.secretKey,
      ...(previousSecretKey !== undefined && { SECRET_KEY_PREVIOUS: previousSecretKey }),
    }),
    // Generated only with a new SECRET_KEY, because they neither decrypt nor verify what was made under the SECRET_KEY
    // alone.
    // A new platform begins with invitations: its operators do not choose the passwords of users (ASVS 6.4.6).
    ...(isOwn &&
      file.get('SECRET_KEY') === undefined && {
        [MASTER_KEY]: undefined,
        AUDIT_SEAL_KEY: undefined,
        ADMIN_SET_PASSWORDS: file.get('ADMIN_SET_PASSWORDS') ?? 'refused',
      }),
    ...((isOwn || service.adminEndpoints) && { ADMIN_API_KEY: undefined }),
    ...listPublicSettings(service, rules),
  };
}

/** @returns the settings that are not secret: addresses, and what a verifier needs */
export function listPublicSettings(service: MappedService, rules: TokenRules): FileSettings {
  const { name, nodeTargets, urls, verifiesAccessTokens } = service;
  const isVerifier = hasVerifier(service);
  const needsJwksUrl = rules.algorithm === 'ES256' && name !== OWN_NAME && (isVerifier || verifiesAccessTokens);
  // The address by which this service reaches auth, which may have a path.
  const { url } = urls.find(({ variable }) => variable === OWN_URL_VARIABLE) ?? rules;
  return {
    ...(nodeTargets && { [NODE_TARGETS]: nodeTargets.join(',') }),
    // Stands before the map's own variables, which override it.
    ...(needsJwksUrl && { [JWKS_URL_VARIABLE]: url.replace(/\/$/, '') + JWKS_PATH }),
    ...Object.fromEntries(urls.map((each) => [each.variable, each.url])),
    ...(isVerifier && { SERVICE_NAME: name }),
    ...(isVerifier && rules.issuer !== DEFAULT_TOKENS.issuer && { JWT_ISSUER: rules.issuer }),
    ...(isVerifier && rules.audience !== undefined && { JWT_AUDIENCE: rules.audience }),
  };
}

/** Whether the service verifies access tokens with the SECRET_KEY. Under ES256 only auth has it. */
export function isSecretKeyNeeded({ name, verifiesAccessTokens }: MappedService, { algorithm }: TokenRules): boolean {
  return name === OWN_NAME || (verifiesAccessTokens && algorithm === 'HS256');
}

/** A verifier (clients/) calls auth with a key of its own, so the map has that call. */
function hasVerifier({ calls }: MappedService): boolean {
  return calls.includes(OWN_NAME);
}

/** @returns the claims that the service's verifier requires and auth does not write, so that it would refuse every token */
export function listStrayClaims(service: MappedService, file: ServiceFile, { issuer, audience }: TokenRules): string[] {
  if (!hasVerifier(service)) return [];
  const isDefault = issuer === DEFAULT_TOKENS.issuer;
  const claims = [];
  if (isDefault && (file.get('JWT_ISSUER') ?? issuer) !== issuer) claims.push('JWT_ISSUER');
  if (audience === undefined && file.get('JWT_AUDIENCE') !== undefined) claims.push('JWT_AUDIENCE');
  return claims;
}
