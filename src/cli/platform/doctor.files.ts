import { secret } from '../../config/variable-kinds.js';
import { isSameSecret } from '../../crypto/secret.js';
import { RUN_INIT, servicesOnFile, type Checkup, type Finding } from './doctor.checkup.js';
import { EnvFile } from '../../config/env-file.js';
import { demandedVariables, messageOf, needsSecretKey, pathOf } from './platform-files.js';
import { credentialVariables, OWN_NAME, type PlatformMap } from './platform-map.js';

/** Reads what can be read; what cannot is a finding. */
export function readWhatIsThere(
  map: PlatformMap,
  envDir: string,
): { files: Map<string, EnvFile>; findings: Finding[] } {
  const files = new Map<string, EnvFile>();
  const findings: Finding[] = [];
  for (const service of map.services) {
    const where = `${service.name}.env`;
    try {
      const file = EnvFile.read(pathOf(envDir, service.name));
      if (file.exists) files.set(service.name, file);
      else if (demandedVariables(service).length > 0)
        findings.push({ severity: 'broken', where, what: 'The file is missing.', do: RUN_INIT });
    } catch (error) {
      const remedy = 'Put a regular file there that this user may read, or nothing, and run init.';
      findings.push({ severity: 'broken', where, what: `${messageOf(error)}.`, do: remedy });
    }
  }
  return { files, findings };
}

export function fileModes(checkup: Checkup): Finding[] {
  return servicesOnFile(checkup)
    .filter(({ file }) => file.isOpenToOthers)
    .map(({ file, where }) => ({
      severity: 'broken',
      where,
      what: `Others may read or write the file (mode ${file.mode}).`,
      do: `chmod 600 ${file.path}. If somebody may have read it, replace what it holds.`,
    }));
}

export function missingVariables(checkup: Checkup): Finding[] {
  return servicesOnFile(checkup).flatMap(({ service, file, where }) => {
    const missing = demandedVariables(service).filter((name) => file.get(name) === undefined);
    if (missing.length === 0) return [];
    return [{ severity: 'broken', where, what: `Not set: ${missing.join(', ')}.`, do: RUN_INIT }];
  });
}

export function weakSecrets(checkup: Checkup): Finding[] {
  return servicesOnFile(checkup).flatMap(({ service, file, where }) => {
    const held = ['SECRET_KEY', 'ADMIN_API_KEY'].filter((name) => demandedVariables(service).includes(name));
    return held.flatMap((name): Finding[] => {
      const value = file.get(name);
      if (value === undefined) return [];
      const what = secret.safeParse(value).error?.issues[0]?.message;
      if (what === undefined) return [];
      const remedy = 'Take the line out and run init, which makes a good one. Then restart the service.';
      return [{ severity: 'broken', where, what: `${name} ${what}.`, do: remedy }];
    });
  });
}

/** Under another name this service refuses every key that init mints for it. */
export function otherOwnName({ files }: Checkup): Finding[] {
  const name = files.get(OWN_NAME)?.get('SERVICE_NAME');
  if (name === undefined || name === OWN_NAME) return [];
  const what = `SERVICE_NAME is not ${OWN_NAME}, the target of the keys that other services hold for this one.`;
  const remedy = 'Take the line out, and restart the service.';
  return [{ severity: 'broken', where: `${OWN_NAME}.env`, what, do: remedy }];
}

/** A verifier with another key refuses every access token. */
export function differentSecretKeys(checkup: Checkup): Finding[] {
  const own = checkup.files.get(OWN_NAME)?.get('SECRET_KEY');
  if (own === undefined) return [];
  return servicesOnFile(checkup).flatMap(({ service, file, where }): Finding[] => {
    const held = file.get('SECRET_KEY');
    if (held === undefined || service.name === OWN_NAME) return [];
    const isSame = isSameSecret(held, own);
    if (needsSecretKey(service) && !isSame)
      return [{ severity: 'broken', where, what: `SECRET_KEY is not that of ${OWN_NAME}.env.`, do: RUN_INIT }];
    if (needsSecretKey(service) || !isSame) return [];
    const what = 'It holds the SECRET_KEY, with which one can make access tokens, and the map says it needs none.';
    return [{ severity: 'warning', where, what, do: 'Take the line out, or set verifies_access_tokens in the map.' }];
  });
}

export function otherAddresses(checkup: Checkup): Finding[] {
  return servicesOnFile(checkup).flatMap(({ service, file, where }) =>
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

/** What is left when a pair leaves the map: init takes nothing out of a file. */
export function leftCredentials(checkup: Checkup): Finding[] {
  return servicesOnFile(checkup).flatMap(({ service, file, where }) =>
    checkup.map.services
      .filter(({ name }) => !service.calls.includes(name))
      .map(({ name }) => ({ name, left: Object.values(credentialVariables(name)).filter((left) => file.get(left)) }))
      .filter(({ left }) => left.length > 0)
      .map(({ name, left }) => ({
        severity: 'warning',
        where,
        what: `It holds ${left.join(' and ')}, and the map has no call to ${name}.`,
        do: 'Take that out, or add the call to the map.',
      })),
  );
}
