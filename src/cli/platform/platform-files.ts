import { join } from 'node:path';
import { NotRegularFileError } from '../../common/durable-file.js';
import { type Variables, overrideVariables, readVariables, toFileVariable } from '../../config/environment.js';
import { EnvFile } from '../../config/env-file.js';
import { parseDatabaseUrl } from '../../config/single-variables.js';
import { credentialVariables, OWN_NAME, type MappedService, type PlatformMap } from './platform-map.js';
import { listVerifierSettings, type TokenRules } from './verifier-variables.js';
import { describeCause } from '../system-errors.js';
import { CommandFailedError } from '../terminal.js';

const DATABASE_VARIABLES = ['DATABASE_URL', toFileVariable('DATABASE_URL')];
/** Secrets that commands read from this file itself. */
const KEPT_IN_ENV_FILE = ['SECRET_KEY', 'SECRET_KEY_PREVIOUS', 'ADMIN_API_KEY', 'LOGGING_APP_KEY'];
/** Variables in which commands and service must agree: how long a revoked key is accepted. */
const SHARED_WITH_SERVICE = ['REVOCATION_LEASE_MS', 'REVOCATION_WAIT_MS'] as const;

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
  const names = [...SHARED_WITH_SERVICE, ...DATABASE_VARIABLES];
  const filed = Object.fromEntries(names.map((name) => [name, own?.get(name)]));
  const variables = overrideVariables(filed, readVariables(own?.path));
  if (own?.exists === false && DATABASE_VARIABLES.every((name) => variables[name] === undefined))
    throw new CommandFailedError(
      `${own.path} does not exist, and DATABASE_URL is not set. Is --env-dir right? ` +
        'On the first run, give DATABASE_URL in the environment.',
      'strange_env_dir',
    );
  const shared = Object.fromEntries(SHARED_WITH_SERVICE.map((name) => [name, variables[name]]));
  return { ...shared, DATABASE_URL: parseDatabaseUrl(variables) };
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
