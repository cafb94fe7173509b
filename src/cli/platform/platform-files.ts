import { join } from 'node:path';
import { types } from 'node:util';
import type { Variables } from '../../config/environment.js';
import { EnvFile } from '../../config/env-file.js';
import { readVariables } from '../../config/environment.js';
import { parseDatabaseUrl } from '../../config/single-variables.js';
import { credentialVariables, OWN_NAME, type MappedService, type PlatformMap } from './platform-map.js';
import { CommandFailed } from '../terminal.js';

/** In what commands and service must agree: how long a key is good after its end, and how long the database may take. */
const LIKE_THE_SERVICE = [
  'KEY_OVERLAP_HOURS',
  'REVOCATION_LEASE_MS',
  'REVOCATION_WAIT_MS',
  'DATABASE_CONNECT_TIMEOUT_MS',
  'DATABASE_STATEMENT_TIMEOUT_MS',
] as const;

export type EnvFiles = ReadonlyMap<string, EnvFile>;

export function pathOf(envDir: string, service: string): string {
  return join(envDir, `${service}.env`);
}

/** @throws {CommandFailed} when anything but a regular file stands where a service's file belongs */
export function readFiles(map: PlatformMap, envDir: string): EnvFiles {
  return new Map(map.services.map(({ name }) => [name, readFile(envDir, name)]));
}

export function readFile(envDir: string, service: string): EnvFile {
  try {
    return EnvFile.read(pathOf(envDir, service));
  } catch (error) {
    throw new CommandFailed(`${messageOf(error)}. Put a regular file there, or nothing, and run it again.`);
  }
}

/**
 * What the database is worked on with: of this process, or else of this service's own file.
 * @throws {InvalidEnvironmentError} when neither has a usable DATABASE_URL
 */
export function databaseVariables(own: EnvFile | undefined): Variables & { readonly DATABASE_URL: string } {
  // In production no file is read for the service, but this file is what the command was pointed at.
  const given = readVariables(own?.path);
  const chosen = (name: string): string | undefined => given[name] ?? own?.get(name);
  const databaseUrl = parseDatabaseUrl({ DATABASE_URL: chosen('DATABASE_URL') });
  return { ...Object.fromEntries(LIKE_THE_SERVICE.map((name) => [name, chosen(name)])), DATABASE_URL: databaseUrl };
}

/** Whether the service's file has to hold the key that signs access tokens. */
export function needsSecretKey({ name, verifiesAccessTokens }: MappedService): boolean {
  return verifiesAccessTokens || name === OWN_NAME;
}

export function needsAdminKey({ name, adminEndpoints }: MappedService): boolean {
  return adminEndpoints || name === OWN_NAME;
}

export function messageOf(error: unknown): string {
  return types.isNativeError(error) ? error.message : String(error);
}

/** Names of the variables that the map demands of a service's file. */
export function demandedVariables(service: MappedService): string[] {
  return [
    ...(service.name === OWN_NAME ? ['DATABASE_URL'] : []),
    ...(needsSecretKey(service) ? ['SECRET_KEY'] : []),
    ...(needsAdminKey(service) ? ['ADMIN_API_KEY'] : []),
    ...service.urls.map(({ variable }) => variable),
    ...service.calls.flatMap((target) => Object.values(credentialVariables(target))),
  ];
}
