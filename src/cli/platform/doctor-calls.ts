import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import type { AppCredential } from '../../app-credentials/app-credentials.service.js';
import type { EnvFile } from '../../config/env-file.js';
import type { SchemaState } from '../../database/migrate.js';
import { isUnused } from '../attention.js';
import { holdsKey, findLive } from './init-plan.js';
import { OWN_NAME, type MappedService, type PlatformMap, credentialVariables } from './platform-map.js';
import { JWKS_PATH, type TokenRules } from './environment-files.js';
import { HEADER_VALUE, sendRequest, readErrorCode } from '../http-client.js';
import { describeCause } from '../failures.js';

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

export function isOverlapOpen({ previousKeyDigest, previousKeyExpiresAt }: AppCredential, now: Date): boolean {
  return previousKeyDigest !== null && previousKeyExpiresAt !== null && previousKeyExpiresAt > now;
}

export function isLongUnused({ lastUsedAt, createdAt }: AppCredential, now: Date): boolean {
  return isUnused({ last_used_at: lastUsedAt, created_at: createdAt }, now);
}

const LOGGING_TIMEOUT_MS = 3_000;
/** A replica under load may be without its lease for a moment (503). */
const MAX_POLLS = 5;
const POLL_PAUSE_MS = 200;
const NAME_INTERNAL_PORT =
  'With INTERNAL_PORT set, name that port in the map and with --url. No other credential was tried.';
const jwks = z.object({ keys: z.array(z.unknown()) });
const verdict = z.object({ valid: z.literal(true), caller: z.string(), target: z.string() });

type AppHeaders = Readonly<Record<'X-Platform-App-Id' | 'X-Platform-App-Key', string>>;

/** Presents each pair's credential, as its target would. When the service does not answer, that is the only finding. */
export async function checkCredentials(checkup: Checkup): Promise<Finding[]> {
  const away = await findServiceAway(checkup.url);
  if (away) return [away];
  if (isComparisonImpossible(checkup)) return [];
  const findings: Finding[] = [];
  for (const pair of listPairsOnFile(checkup)) {
    if (pair.appId === undefined || pair.appKey === undefined || hasSideEffects(pair, checkup)) continue;
    const headers = { 'X-Platform-App-Id': pair.appId, 'X-Platform-App-Key': pair.appKey };
    const finding =
      (await findRefusal(pair, headers, checkup.url)) ?? (await findClosedDoor(pair, headers, checkup.url));
    if (finding) findings.push(finding);
    if (finding?.do === NAME_INTERNAL_PORT) break;
  }
  return findings;
}

/**
 * Validating is not free of side effects. The first use of a rotated key ends the old key, which the running service may
 * still present; and any use hides that a key was unused for long. In both cases the digest is compared instead.
 */
function hasSideEffects({ caller, target, file, appId }: PairOnFile, { database, now }: Checkup): boolean {
  const credential = findLive(database?.live ?? [], caller, target);
  if (credential?.id !== appId || !credential || !holdsKey(file, credential)) return false;
  return isOverlapOpen(credential, now) || isLongUnused(credential, now);
}

/** Without the digests it is unknown which keys may be validated; the missing migrations are already a finding. */
function isComparisonImpossible({ database }: Checkup): boolean {
  return database !== undefined && database.live === undefined;
}

async function findRefusal(
  { caller, target, where }: PairOnFile,
  headers: AppHeaders,
  url: string,
): Promise<Finding | undefined> {
  const remedy = `Run init, then restart ${caller}.`;
  try {
    const response = await sendRequest(`${url}/internal/validate-app`, {
      method: 'POST',
      headers,
      body: { target },
      timeoutMs: SERVICE_TIMEOUT_MS,
    });
    const body: unknown = await response.json().catch(() => undefined);
    if (response.status === 401)
      return { severity: 'broken', where, what: 'The credential in the file is refused.', do: remedy };
    if (response.status !== 200) {
      const what = `No verdict: ${response.status} from ${OWN_NAME}.`;
      return { severity: 'broken', where, what, do: response.status === 404 ? NAME_INTERNAL_PORT : READ_LOG };
    }
    const { data } = verdict.safeParse(body);
    if (data?.caller === caller && data.target === target) return undefined;
    const pair = data ? `that of ${data.caller} → ${data.target}` : 'not confirmed as that of any pair';
    return { severity: 'broken', where, what: `The credential in the file is ${pair}.`, do: remedy };
  } catch (error) {
    return { severity: 'broken', where, what: `No verdict: ${describeError(error)}.`, do: READ_LOG };
  }
}

/** Polls, as a verifier in the caller does: without an answer it accepts nothing from its memory. */
async function findClosedDoor(
  { caller, target, where }: PairOnFile,
  headers: AppHeaders,
  url: string,
): Promise<Finding | undefined> {
  if (target !== OWN_NAME) return undefined;
  let told = '';
  for (let attempt = 1; attempt <= MAX_POLLS; attempt += 1) {
    told = await poll(url, headers);
    if (told === '') return undefined;
    await sleep(POLL_PAUSE_MS);
  }
  const what = `The credential in the file is valid, but /internal/changes ${told}. A verifier in ${caller} has to ask for each request.`;
  return { severity: 'broken', where, what, do: READ_LOG };
}

/** @returns what is wrong with the answer; empty when it hands the lease on */
async function poll(url: string, headers: AppHeaders): Promise<string> {
  try {
    const request = { method: 'POST', headers, body: {}, timeoutMs: SERVICE_TIMEOUT_MS };
    const response = await sendRequest(`${url}/internal/changes`, request);
    await response.body?.cancel();
    return response.status === 200 ? '' : `answers ${response.status}`;
  } catch (error) {
    return `does not answer: ${describeError(error)}`;
  }
}

/**
 * A service that refuses the ADMIN_API_KEY of its file was started with other secrets: most likely with another SECRET_KEY
 * too.
 */
export async function checkAdminKey({ files, url }: Checkup): Promise<Finding[]> {
  const adminKey = files.get(OWN_NAME)?.get('ADMIN_API_KEY');
  if (adminKey === undefined || !HEADER_VALUE.test(adminKey)) return [];
  try {
    const request = { headers: { 'X-Admin-Key': adminKey }, timeoutMs: SERVICE_TIMEOUT_MS };
    const response = await sendRequest(`${url}/api/v0/admin/app-credentials?limit=1`, request);
    await response.body?.cancel();
    if (response.status !== 401) return [];
  } catch {
    // That the service does not answer is a finding of checkCredentials.
    return [];
  }
  const what = 'The running service refuses this ADMIN_API_KEY: it was started with other secrets.';
  const remedy =
    `Restart ${OWN_NAME} with this file, from a shell that does not export these variables: an exported one wins over the file. ` +
    'Or write the SECRET_KEY, ADMIN_API_KEY and AUDIT_SEAL_KEY with which it runs into the file, and run init.';
  return [{ severity: 'broken', where: `${OWN_NAME}.env: ADMIN_API_KEY`, what, do: remedy }];
}

/** Under ES256 verifiers read the public keys: none is published when the running service still signs with SECRET_KEY. */
export async function checkPublishedKeys({ rules, url }: Checkup): Promise<Finding[]> {
  if (rules.algorithm !== 'ES256') return [];
  try {
    const response = await sendRequest(`${url}${JWKS_PATH}`, { timeoutMs: SERVICE_TIMEOUT_MS });
    const { data } = jwks.safeParse(await response.json().catch(() => undefined));
    if (response.status !== 200 || (data?.keys.length ?? 0) > 0) return [];
  } catch {
    // That the service does not answer is a finding of checkCredentials.
    return [];
  }
  const what = `ACCESS_TOKEN_ALGORITHM is ES256, and ${JWKS_PATH} has no key.`;
  return [{ severity: 'broken', where: url, what, do: `Restart ${OWN_NAME}, so that it reads its file again.` }];
}

/** Sends a GET, so that no log line is delivered: only a missing response, a 5xx and a redirect count as trouble. */
export async function checkLoggingService({ files }: Checkup): Promise<Finding[]> {
  const url = files.get(OWN_NAME)?.get('LOGGING_SERVICE_URL');
  if (url === undefined) return [];
  const what = await findLoggingTrouble(url);
  if (what === undefined) return [];
  const remedy =
    'Start it, or correct its address in the map and run init. Until then log lines go to the console only.';
  return [{ severity: 'warning', where: `${OWN_NAME}.env: LOGGING_SERVICE_URL`, what, do: remedy }];
}

async function findLoggingTrouble(url: string): Promise<string | undefined> {
  try {
    const response = await sendRequest(url, { timeoutMs: LOGGING_TIMEOUT_MS });
    await response.body?.cancel();
    const isTrouble = response.status >= 500 || (response.status >= 300 && response.status < 400);
    return isTrouble ? `The logging service answers ${response.status}.` : undefined;
  } catch (error) {
    return `The logging service does not answer: ${describeError(error)}.`;
  }
}

export const SERVICE_TIMEOUT_MS = 5_000;
export const READ_LOG = `Read the log of ${OWN_NAME}, and run doctor again.`;
const NOT_TRIED = 'No credential was tried.';
const health = z.object({ details: z.object({ database: z.object({ status: z.string() }) }) });

/** @returns undefined when the service is ready */
export async function findServiceAway(url: string): Promise<Finding | undefined> {
  try {
    const response = await sendRequest(`${url}/health`, { timeoutMs: SERVICE_TIMEOUT_MS });
    const body: unknown = await response.json().catch(() => undefined);
    if (response.status === 200) return undefined;
    return { severity: 'broken', where: url, ...describeHealth(response.status, body) };
  } catch (error) {
    const what = `${OWN_NAME} does not answer: ${describeError(error)}.`;
    const remedy = `Start ${OWN_NAME}, or name its address with --url. ${NOT_TRIED}`;
    return { severity: 'broken', where: url, what, do: remedy };
  }
}

/** A response that is not 200: the service runs, unless another program has its address. */
function describeHealth(status: number, body: unknown): Pick<Finding, 'what' | 'do'> {
  const { data } = health.safeParse(body);
  if (!data) {
    const remedy = `Is this the address of ${OWN_NAME}? Name it with --url, or read the log of what answers there. ${NOT_TRIED}`;
    return { what: `/health answers ${status}, not as ${OWN_NAME} does.`, do: remedy };
  }
  if (data.details.database.status === 'up')
    return { what: `/health answers ${status}.`, do: `${READ_LOG} ${NOT_TRIED}` };
  const what = `/health answers ${status}: ${OWN_NAME} runs, and cannot use its database.`;
  return { what, do: `Start its database, or read the log of ${OWN_NAME} for the cause. ${NOT_TRIED}` };
}

export function describeError(error: unknown): string {
  return readErrorCode(error) || describeCause(error);
}
