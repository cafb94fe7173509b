import { join } from 'node:path';
import { NotRegularFileError } from '../../common/durable-file.js';
import type { Variables } from '../../config/environment.js';
import { EnvFile } from '../../config/env-file.js';
import { readVariables } from '../../config/environment.js';
import { parseDatabaseUrl } from '../../config/single-variables.js';
import { credentialVariables, OWN_NAME, type MappedService, type PlatformMap } from './platform-map.js';
import { describeCause } from '../system-errors.js';
import { CommandFailedError } from '../terminal.js';

/** Variables in which commands and service must agree: how long a revoked key is accepted, and database timeouts. */
const SHARED_WITH_SERVICE = [
  'KEY_OVERLAP_HOURS',
  'REVOCATION_LEASE_MS',
  'REVOCATION_WAIT_MS',
  'DATABASE_CONNECT_TIMEOUT_MS',
  'DATABASE_STATEMENT_TIMEOUT_MS',
] as const;

export type EnvFiles = ReadonlyMap<string, EnvFile>;

export function resolveEnvPath(envDir: string, service: string): string {
  return join(envDir, `${service}.env`);
}

/** @throws {CommandFailedError} when the path of a service's file exists and is not a regular file */
export function readEnvFiles(map: PlatformMap, envDir: string): EnvFiles {
  return new Map(map.services.map(({ name }) => [name, readEnvFile(envDir, name)]));
}

export function readEnvFile(envDir: string, service: string): EnvFile {
  try {
    return EnvFile.read(resolveEnvPath(envDir, service));
  } catch (error) {
    throw new CommandFailedError(
      `${describeUnreadable(resolveEnvPath(envDir, service), error)}. Replace it by a regular file, or remove it, and run this again.`,
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
 */
export function databaseVariables(own: EnvFile | undefined): Variables & { readonly DATABASE_URL: string } {
  // In production the service reads no file, but this command was given the file by --env-dir.
  const given = readVariables(own?.path);
  const choose = (name: string): string | undefined => given[name] ?? own?.get(name);
  const databaseUrl = parseDatabaseUrl({ DATABASE_URL: choose('DATABASE_URL') });
  return { ...Object.fromEntries(SHARED_WITH_SERVICE.map((name) => [name, choose(name)])), DATABASE_URL: databaseUrl };
}

/** Whether the service's file has to hold the key that signs access tokens. */
export function needsSecretKey({ name, verifiesAccessTokens }: MappedService): boolean {
  return verifiesAccessTokens || name === OWN_NAME;
}

export function needsAdminKey({ name, adminEndpoints }: MappedService): boolean {
  return adminEndpoints || name === OWN_NAME;
}

/** Names of the variables that a service's file must set, by the map. */
export function listRequiredVariables(service: MappedService): string[] {
  return [
    ...(service.name === OWN_NAME ? ['DATABASE_URL'] : []),
    ...(needsSecretKey(service) ? ['SECRET_KEY'] : []),
    ...(needsAdminKey(service) ? ['ADMIN_API_KEY'] : []),
    ...service.urls.map(({ variable }) => variable),
    ...service.calls.flatMap((target) => Object.values(credentialVariables(target))),
  ];
}
