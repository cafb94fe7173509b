import type { AppCredential } from '../../app-credentials/app-credentials.service.js';
import { addDays, type Clock } from '../../common/clock.js';
import { readSchemaState } from '../../database/migrate.js';
import { EXPIRY_NOTICE_DAYS, UNUSED_DAYS } from '../attention.js';
import { withAppKeys } from './app-keys.js';
import { listPairsOnFile, RUN_INIT, type Checkup, type DatabaseView, type Finding } from './doctor.checkup.js';
import type { EnvFile } from '../../config/env-file.js';
import { holdsKey, findLive } from './init.plan.js';
import { databaseVariables } from './platform-files.js';
import { describeCause, describeDatabaseFailure } from '../system-errors.js';

const MAX_SKEW_MS = 2_000;
/** The default grace of refresh tokens: a larger skew changes which tokens are accepted. */
const MAX_HARMLESS_SKEW_MS = 10_000;

/** Reads the schema, the live credentials and the clock of the database. Changes nothing. */
export async function readDatabase(
  own: EnvFile | undefined,
  clock: Clock,
): Promise<{ view: DatabaseView | undefined; findings: Finding[] }> {
  try {
    const variables = databaseVariables(own);
    const schema = await readSchemaState(variables.DATABASE_URL);
    const view = await withAppKeys(variables, clock, async ({ credentials, databaseClock }) => {
      const before = clock.now().getTime();
      const databaseTime = await databaseClock.now();
      const middle = (before + clock.now().getTime()) / 2;
      const live = schema.pending.length > 0 ? undefined : await credentials.listLiveAppCredentials();
      return { schema, live, aheadMs: middle - databaseTime.getTime() };
    });
    return { view, findings: [] };
  } catch (error) {
    const what = `The database cannot be used: ${describeCause(error)}.`;
    const next = describeDatabaseFailure(error)?.next ?? 'Correct DATABASE_URL in auth.env.';
    const remedy = `${next} Everything that needs the database was not checked.`;
    return { view: undefined, findings: [{ severity: 'broken', where: 'database', what, do: remedy }] };
  }
}

export function checkSchema({ database }: Checkup): Finding[] {
  const { pending = [], unknown = [] } = database?.schema ?? {};
  const findings: Finding[] = [];
  const where = 'database';
  if (pending.length > 0)
    findings.push({
      severity: 'broken',
      where,
      what: `Migrations are missing: ${pending.join(', ')}.`,
      do: 'Run migrate, then doctor again. Keys were neither compared nor validated.',
    });
  if (unknown.length > 0)
    findings.push({
      severity: 'warning',
      where,
      what: `A newer version of the service has migrated it: ${unknown.join(', ')}.`,
      do: 'Use the version of this program that the service has.',
    });
  return findings;
}

export function checkClock({ database }: Checkup): Finding[] {
  const aheadMs = database?.aheadMs ?? 0;
  if (Math.abs(aheadMs) < MAX_SKEW_MS) return [];
  const seconds = Math.round(Math.abs(aheadMs) / 1_000);
  return [
    {
      severity: Math.abs(aheadMs) < MAX_HARMLESS_SKEW_MS ? 'warning' : 'broken',
      where: 'clock',
      what: `This machine is ${seconds} s ${aheadMs > 0 ? 'ahead of' : 'behind'} the database.`,
      do: 'Synchronise both with the same time source (NTP): tokens and overlaps end by the clock.',
    },
  ];
}

export function checkOverlaps(checkup: Checkup): Finding[] {
  return listPairsOnFile(checkup).flatMap(({ caller, target, where, file }): Finding[] => {
    const credential = findLive(checkup.database?.live ?? [], caller, target);
    if (!credential || !isOverlapOpen(credential, checkup.now)) return [];
    const until = credential.previousKeyExpiresAt?.toISOString() ?? '';
    const isDelivered = holdsKey(file, credential);
    return [
      {
        severity: 'warning',
        where,
        what: isDelivered
          ? `The key was rotated and the new one was not used yet; the old one works until ${until}.`
          : `The key was rotated and the file does not hold the new one; the old one works until ${until}.`,
        do: isDelivered ? `Restart ${caller}, so that it reads its file again.` : RUN_INIT,
      },
    ];
  });
}

export function checkUnusedKeys({ database, now }: Checkup): Finding[] {
  return (database?.live ?? [])
    .filter((credential) => isLongUnused(credential, now))
    .map(({ caller, target, lastUsedAt }) => ({
      severity: 'warning',
      where: `${caller} → ${target}`,
      what: lastUsedAt
        ? `The key was last used on ${lastUsedAt.toISOString().slice(0, 10)}.`
        : `The key was not used once in more than ${UNUSED_DAYS} days.`,
      do: `If ${caller} no longer calls ${target}, remove the pair from the map and run init --prune.`,
    }));
}

export function checkExpiringKeys({ database, now }: Checkup): Finding[] {
  return (database?.live ?? [])
    .filter(({ expiresAt }) => expiresAt !== null && expiresAt < addDays(now, EXPIRY_NOTICE_DAYS))
    .map(({ caller, target, expiresAt }) => ({
      severity: 'warning',
      where: `${caller} → ${target}`,
      what: `The credential expires at ${expiresAt?.toISOString() ?? ''}.`,
      do: 'After that, run init: it mints one that does not expire.',
    }));
}

export function checkStrayPairs({ map, database }: Checkup): Finding[] {
  return (database?.live ?? [])
    .filter(({ caller, target }) => !map.services.some(({ name, calls }) => name === caller && calls.includes(target)))
    .map(({ caller, target }) => ({
      severity: 'warning',
      where: `${caller} → ${target}`,
      what: 'There is a live credential for a pair that is not in the map.',
      do: 'Add the pair to the map, or run init --prune.',
    }));
}

export function isOverlapOpen({ previousKeyDigest, previousKeyExpiresAt }: AppCredential, now: Date): boolean {
  return previousKeyDigest !== null && previousKeyExpiresAt !== null && previousKeyExpiresAt > now;
}

export function isLongUnused({ lastUsedAt, createdAt }: AppCredential, now: Date): boolean {
  return (lastUsedAt ?? createdAt) < addDays(now, -UNUSED_DAYS);
}
