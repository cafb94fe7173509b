import { secret } from '../../config/variable-kinds.js';
import { isSameSecret } from '../../crypto/secret.js';
import { RUN_INIT, listServicesOnFile, type Checkup, type Finding } from './doctor.checkup.js';
import { EnvFile } from '../../config/env-file.js';
import {
  describeUnreadable,
  isSetIn,
  listRequiredVariables,
  needsSecretKey,
  resolveEnvPath,
} from './platform-files.js';
import { credentialVariables, OWN_NAME, type PlatformMap } from './platform-map.js';
import { createDefaultRules, listStrayClaims, listVerifierSettings } from './verifier-variables.js';

const FIND_FILE = 'Is --env-dir right? If so, run init, then restart the service.';

/** Reads the files that exist; an unreadable file is a finding. */
export function readExistingFiles(
  map: PlatformMap,
  envDir: string,
): { files: Map<string, EnvFile>; findings: Finding[] } {
  const files = new Map<string, EnvFile>();
  const findings: Finding[] = [];
  for (const service of map.services) {
    const where = `${service.name}.env`;
    try {
      const file = EnvFile.read(resolveEnvPath(envDir, service.name));
      if (file.exists) files.set(service.name, file);
      else if (listRequiredVariables(service, createDefaultRules(map)).length > 0)
        findings.push({ severity: 'broken', where, what: 'The file is missing.', do: FIND_FILE });
    } catch (error) {
      const remedy = 'Replace it by a regular file that this user may read, or remove it, and run init.';
      findings.push({ severity: 'broken', where, what: `${describeUnreadable(where, error)}.`, do: remedy });
    }
  }
  return { files, findings };
}

export function checkFileModes(checkup: Checkup): Finding[] {
  return listServicesOnFile(checkup)
    .filter(({ file }) => file.isOpenToOthers)
    .map(({ file, where }) => ({
      severity: 'broken',
      where,
      what: `Other users may read or write the file (mode ${file.mode}).`,
      do: `chmod 600 ${file.path}. If another user may have read it, replace its keys.`,
    }));
}

export function checkMissingVariables(checkup: Checkup): Finding[] {
  return listServicesOnFile(checkup).flatMap(({ service, file, where }) => {
    const missing = listRequiredVariables(service, checkup.rules).filter((name) => !isSetIn(file, name));
    if (missing.length === 0) return [];
    return [{ severity: 'broken', where, what: `Not set: ${missing.join(', ')}.`, do: RUN_INIT }];
  });
}

export function checkWeakSecrets(checkup: Checkup): Finding[] {
  return listServicesOnFile(checkup).flatMap(({ service, file, where }) => {
    const required = listRequiredVariables(service, checkup.rules);
    const held = ['SECRET_KEY', 'ADMIN_API_KEY'].filter((name) => required.includes(name));
    return held.flatMap((name): Finding[] => {
      const value = file.get(name);
      if (value === undefined) return [];
      const what = secret.safeParse(value).error?.issues[0]?.message;
      if (what === undefined) return [];
      const remedy = 'Remove the line and run init, which generates a new one. Then restart the service.';
      return [{ severity: 'broken', where, what: `${name} ${what}.`, do: remedy }];
    });
  });
}

/** Keys that init mints for this service name it by OWN_NAME; with another SERVICE_NAME it refuses them all. */
export function checkServiceName({ files }: Checkup): Finding[] {
  const name = files.get(OWN_NAME)?.get('SERVICE_NAME');
  if (name === undefined || name === OWN_NAME) return [];
  const what = `SERVICE_NAME is not ${OWN_NAME}, the target of the keys that other services hold for this one.`;
  const remedy = 'Remove the line, and restart the service.';
  return [{ severity: 'broken', where: `${OWN_NAME}.env`, what, do: remedy }];
}

/** Init removes nothing from a file: at the end of a rotation the previous key is left in the files of the others. */
export function checkPreviousKeys(checkup: Checkup): Finding[] {
  const own = checkup.files.get(OWN_NAME)?.get('SECRET_KEY_PREVIOUS');
  return listServicesOnFile(checkup).flatMap(({ service, file, where }): Finding[] => {
    const held = file.get('SECRET_KEY_PREVIOUS');
    if (held === undefined && own !== undefined && needsSecretKey(service, checkup.rules))
      return [{ severity: 'broken', where, what: 'Not set: SECRET_KEY_PREVIOUS.', do: RUN_INIT }];
    if (held === undefined || (own !== undefined && isSameSecret(held, own))) return [];
    const what = `It holds a SECRET_KEY_PREVIOUS that ${OWN_NAME}.env does not.`;
    return [{ severity: 'warning', where, what, do: 'Remove the line, and restart the service.' }];
  });
}

/** A service that verifies access tokens with another key refuses all of them. */
export function checkSecretKeys(checkup: Checkup): Finding[] {
  const { rules } = checkup;
  const own = checkup.files.get(OWN_NAME)?.get('SECRET_KEY');
  if (own === undefined) return [];
  return listServicesOnFile(checkup).flatMap(({ service, file, where }): Finding[] => {
    const held = file.get('SECRET_KEY');
    if (held === undefined || service.name === OWN_NAME) return [];
    const isSame = isSameSecret(held, own);
    if (needsSecretKey(service, rules) && !isSame)
      return [{ severity: 'broken', where, what: `SECRET_KEY is not that of ${OWN_NAME}.env.`, do: RUN_INIT }];
    if (needsSecretKey(service, rules) || !isSame) return [];
    if (rules.algorithm === 'ES256')
      return [
        {
          severity: 'warning',
          where,
          what: `It holds the SECRET_KEY, which only ${OWN_NAME} needs under ES256: it decrypts the signing keys.`,
          do: 'Remove the line and restart the service. When no file holds it any more, rotate it (docs/operations/keys.md).',
        },
      ];
    const what =
      'It holds the SECRET_KEY, which can sign access tokens, although the map says that it does not verify any.';
    return [{ severity: 'warning', where, what, do: 'Remove the line, or set verifies_access_tokens in the map.' }];
  });
}

export function checkAddresses(checkup: Checkup): Finding[] {
  return listServicesOnFile(checkup).flatMap(({ service, file, where }) =>
    service.urls
      .filter(({ variable, url }) => file.get(variable) !== undefined && file.get(variable) !== url)
      .map(({ variable, url }) => ({
        severity: 'warning',
        where,
        what: `${variable} is not what the map says (${url}).`,
        do: 'Correct the map if the file is right, and run init: it writes what the map says.',
      })),
  );
}

/** With another name the service refuses its callers; with other claims, every access token. */
export function checkVerifierSettings(checkup: Checkup): Finding[] {
  return listServicesOnFile(checkup).flatMap(({ service, file, where }): Finding[] => {
    const different = listVerifierSettings(service, checkup.rules).filter(
      ({ variable, value }) => (file.get(variable) ?? value) !== value,
    );
    const stray = listStrayClaims(service, file, checkup.rules);
    return [
      ...different.map(({ variable, value }): Finding => {
        const what = `${variable} is not ${value}: what its callers present is refused.`;
        return { severity: 'broken', where, what, do: RUN_INIT };
      }),
      ...stray.map((variable): Finding => {
        const what = `${variable} is not what ${OWN_NAME} writes into access tokens: all of them are refused.`;
        return { severity: 'broken', where, what, do: 'Remove the line, and restart the service.' };
      }),
    ];
  });
}

/** Left behind when a pair is removed from the map: init removes nothing from a file. */
export function checkLeftoverCredentials(checkup: Checkup): Finding[] {
  return listServicesOnFile(checkup).flatMap(({ service, file, where }) =>
    checkup.map.services
      .filter(({ name }) => !service.calls.includes(name))
      .map(({ name }) => ({ name, left: Object.values(credentialVariables(name)).filter((left) => file.get(left)) }))
      .filter(({ left }) => left.length > 0)
      .map(({ name, left }) => ({
        severity: 'warning',
        where,
        what: `It holds ${left.join(' and ')}, and the map lists no call to ${name}.`,
        do: 'Remove them, or add the call to the map.',
      })),
  );
}
