import type { AppCredential } from '../../app-credentials/app-credentials.service.js';
import type { SchemaState } from '../../database/migrate.js';
import type { EnvFile } from '../../config/env-file.js';
import { credentialVariables, type MappedService, type PlatformMap } from './platform-map.js';
import type { TokenRules } from './verifier-variables.js';

/** broken: a call is refused or a secret is exposed now. warning: everything works now, and will not later. */
export type Severity = 'broken' | 'warning';

/** One problem, and what to do about it. Holds no secret. */
export interface Finding {
  readonly severity: Severity;
  readonly where: string;
  readonly what: string;
  readonly do: string;
}

/** What was read from the database. */
export interface DatabaseView {
  readonly schema: SchemaState;
  /** Live credentials; undefined while migrations are missing, because their columns may not exist. */
  readonly live: readonly AppCredential[] | undefined;
  /** How far this machine's clock is ahead of the database's; negative when it is behind. */
  readonly aheadMs: number;
}

/** The input of every check. */
export interface Checkup {
  readonly map: PlatformMap;
  readonly envDir: string;
  /** The address of this service. */
  readonly url: string;
  readonly now: Date;
  /** The files that exist and can be read, by service. */
  readonly files: ReadonlyMap<string, EnvFile>;
  readonly database: DatabaseView | undefined;
  readonly rules: TokenRules;
}

export type Check = (checkup: Checkup) => Finding[] | Promise<Finding[]>;

export const RUN_INIT = 'Run init, then restart the service.';

/** A pair of the map with what the caller's file holds for it. */
export interface PairOnFile {
  readonly caller: string;
  readonly target: string;
  readonly where: string;
  readonly file: EnvFile;
  readonly appId: string | undefined;
  readonly appKey: string | undefined;
}

/** @returns each service whose file can be read */
export function listServicesOnFile({
  map,
  files,
}: Checkup): { service: MappedService; file: EnvFile; where: string }[] {
  return map.services.flatMap((service) => {
    const file = files.get(service.name);
    return file ? [{ service, file, where: `${service.name}.env` }] : [];
  });
}

/** @returns each pair of the map whose caller's file can be read */
export function listPairsOnFile(checkup: Checkup): PairOnFile[] {
  return listServicesOnFile(checkup).flatMap(({ service: { name: caller, calls }, file, where }) =>
    calls.map((target) => {
      const names = credentialVariables(target);
      return {
        caller,
        target,
        where: `${where}: ${caller} → ${target}`,
        file,
        appId: file.get(names.id),
        appKey: file.get(names.key),
      };
    }),
  );
}
