import { z } from 'zod';
import { listPairsOnFile, type Checkup, type Finding, type PairOnFile } from './doctor.checkup.js';
import { isLongUnused, isOverlapOpen } from './doctor.database.js';
import { holdsKey, findLive } from './init.plan.js';
import { toMessage } from './platform-files.js';
import { OWN_NAME } from './platform-map.js';

const ANSWER_TIMEOUT_MS = 5_000;
const LOGGING_TIMEOUT_MS = 3_000;
const LOOK_AT_LOG = 'Look at its log, and run doctor again.';
const NAME_INTERNAL_PORT =
  'With INTERNAL_PORT set, name that port in the map and with --url. No other credential was tried.';
const verdict = z.object({ valid: z.literal(true), caller: z.string(), target: z.string() });

/** Presents each pair's credential, as its target would; when the service is away, that is the one finding. */
export async function checkCredentials(checkup: Checkup): Promise<Finding[]> {
  const away = await serviceAway(checkup.url);
  if (away) return [away];
  if (isUncomparable(checkup)) return [];
  const findings: Finding[] = [];
  for (const pair of listPairsOnFile(checkup)) {
    if (pair.appId === undefined || pair.appKey === undefined || mustNotBeUsed(pair, checkup)) continue;
    const finding = await refusal(pair, pair.appId, pair.appKey, checkup.url);
    if (finding) findings.push(finding);
    if (finding?.do === NAME_INTERNAL_PORT) break;
  }
  return findings;
}

/**
 * A validation has effects. The first one with a rotated key ends the old key, which the running service may still be
 * presenting; and any one makes an unused key look used. In these cases the digest tells as much.
 */
function mustNotBeUsed({ caller, target, file, appId }: PairOnFile, { database, now }: Checkup): boolean {
  const credential = findLive(database?.live ?? [], caller, target);
  if (credential?.id !== appId || !credential || !holdsKey(file, credential)) return false;
  return isOverlapOpen(credential, now) || isLongUnused(credential, now);
}

/** Which key may be used cannot be told, and the next thing to do is known. */
function isUncomparable({ database }: Checkup): boolean {
  return database !== undefined && database.live === undefined;
}

async function serviceAway(url: string): Promise<Finding | undefined> {
  const remedy = 'Start it, or name its address with --url. No credential was tried.';
  try {
    const answer = await ask(`${url}/health`, { signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS) });
    await answer.body?.cancel();
    if (answer.status === 200) return undefined;
    return { severity: 'broken', where: url, what: `/health answers ${answer.status}.`, do: remedy };
  } catch (error) {
    return { severity: 'broken', where: url, what: `${OWN_NAME} does not answer: ${reasonOf(error)}.`, do: remedy };
  }
}

async function refusal(
  { caller, target, where }: PairOnFile,
  appId: string,
  appKey: string,
  url: string,
): Promise<Finding | undefined> {
  try {
    const answer = await ask(`${url}/internal/validate-app`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', 'X-Platform-App-Id': appId, 'X-Platform-App-Key': appKey },
      body: JSON.stringify({ target }),
      signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS),
    });
    const body: unknown = await answer.json().catch(() => undefined);
    if (answer.status === 401)
      return {
        severity: 'broken',
        where,
        what: 'The credential in the file is refused.',
        do: `Run init, then restart ${caller}.`,
      };
    if (answer.status !== 200) {
      const what = `No verdict: ${answer.status} from ${OWN_NAME}.`;
      return { severity: 'broken', where, what, do: answer.status === 404 ? NAME_INTERNAL_PORT : LOOK_AT_LOG };
    }
    const { data } = verdict.safeParse(body);
    if (data?.caller === caller && data.target === target) return undefined;
    const what = `The credential in the file is that of ${data?.caller ?? 'somebody'} → ${data?.target ?? 'something'}.`;
    return { severity: 'broken', where, what, do: `Run init, then restart ${caller}.` };
  } catch (error) {
    const what = `No verdict: ${reasonOf(error)}.`;
    return { severity: 'broken', where, what, do: LOOK_AT_LOG };
  }
}

/** Any answer but an error or a redirect will do: how it takes lines is between the two. */
export async function checkLoggingService({ files }: Checkup): Promise<Finding[]> {
  const url = files.get(OWN_NAME)?.get('LOGGING_SERVICE_URL');
  if (url === undefined) return [];
  const what = await loggingTrouble(url);
  if (what === undefined) return [];
  const remedy = 'Start it, or correct its address in the map and run init. Until then the console has the lines.';
  return [{ severity: 'warning', where: `${OWN_NAME}.env: LOGGING_SERVICE_URL`, what, do: remedy }];
}

async function loggingTrouble(url: string): Promise<string | undefined> {
  try {
    const answer = await ask(url, { signal: AbortSignal.timeout(LOGGING_TIMEOUT_MS) });
    await answer.body?.cancel();
    const isTrouble = answer.status >= 500 || (answer.status >= 300 && answer.status < 400);
    return isTrouble ? `The logging service answers ${answer.status}.` : undefined;
  } catch (error) {
    return `The logging service does not answer: ${reasonOf(error)}.`;
  }
}

/** A credential is never carried on to where a redirect points. */
async function ask(url: string, options: RequestInit): Promise<Response> {
  return fetch(url, { ...options, redirect: 'manual' });
}

/** fetch says "fetch failed" and hides why. */
function reasonOf(error: unknown): string {
  const { cause } = error as { cause?: { code?: string } };
  return cause?.code ?? toMessage(error);
}
