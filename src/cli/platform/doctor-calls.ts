// What `doctor` finds without the database: the answers of the running services, and the credentials of a plan. A file
// of its own, so that `doctor` without --env-dir loads neither TypeORM nor the modules of the service.
import * as z from 'zod';
import { toCredentialVariables } from '../../foundation/common/names.js';
import type { EnvFile } from '../../foundation/config/env-file.js';
import { HEADER_VALUE } from '../../foundation/config/variable-kinds.js';
import { computeDigest } from '../../foundation/crypto/secret.js';
import { formatPair, isOverlapOpen } from '../credential-state.js';
import { describeCause } from '../failures.js';
import { isFailure, joinPath, readErrorCode, readJson, sendRequest, type HttpRequest } from '../http-client.js';
import { AdminClient, type Query } from '../remote/admin-client.js';
import { identifyKeys, type IdentifiedKeys } from '../remote/identify-keys.js';
import { formatPlace } from './doctor-keys.js';
import { JWKS_PATH, type TokenRules } from './environment-files.js';
import { broken, warning, type PlatformFinding } from './finding.js';
import { isDelivered, type Plan, type PlannedPair, type PlannedService } from './plan.js';
import { OWN_NAME, type PlatformMap } from './platform-map.js';

export interface Checkup {
  /** The address of auth. */
  readonly url: string;
  readonly now: Date;
  readonly rules: TokenRules;
  /** The environment file of auth; undefined when it cannot be read. */
  readonly own: EnvFile | undefined;
  /** What `init` would do. */
  readonly plan: Plan;
  /**
   * Whether the keys were compared with the database: false when migrations are missing, undefined when the database is
   * down.
   */
  readonly canCompare: boolean | undefined;
}

const SERVICE_TIMEOUT_MS = 5_000;
const READ_LOG = `Read the log of ${OWN_NAME}, and run doctor again.`;
const NOT_TRIED = 'No credential was tried.';
const NAME_PORT = 'With INTERNAL_PORT set, name that port in the map and with --url. No credential was looked up.';
const OTHER_DATABASE = `The service there uses another database: correct --url, or the DATABASE_URL of one of them.`;
const indicator = z.object({ status: z.string(), message: z.string().optional() });
const health = z.object({ details: z.object({ database: indicator, clock: indicator.optional() }) });
const jwks = z.object({ keys: z.array(z.unknown()) });
const restrictedNodes = z.object({
  items: z.array(z.object({ targets: z.array(z.string()), live: z.number(), node_id: z.string() })),
});
const explanation = z.object({ accepted_now: z.boolean() });
const review = z.object({ weak_settings: z.array(z.object({ variable: z.string(), detail: z.string() })) });

/** Calls the running services. When auth does not answer, that is the only finding about auth. */
export async function callServices(checkup: Checkup): Promise<PlatformFinding[]> {
  const { own, url } = checkup;
  const away = await findUnreadyService(url);
  const found = away ? [away] : await checkService(checkup, createClient(url, own?.get('ADMIN_API_KEY')));
  return [...found, await checkLoggingService(own)].filter((finding) => finding !== undefined);
}

async function checkService(checkup: Checkup, client: AdminClient | undefined) {
  return [
    ...(await checkCredentials(checkup, client)),
    await checkAdminKey(client),
    ...(await checkNodes(client, checkup.plan)),
    ...(await checkSettings(client)),
    await checkPublishedKeys(checkup.rules, checkup.url),
  ];
}

type Reply = Readonly<{ status: number; body?: unknown; error?: string }>;

/** @returns the status and the JSON of the answer, or why there is none */
async function ask(
  url: string,
  request: HttpRequest = {},
  read: (response: Response) => Promise<unknown> | undefined = (response) => readJson(response).catch(() => undefined),
): Promise<Reply> {
  try {
    const response = await sendRequest(url, { timeoutMs: SERVICE_TIMEOUT_MS, ...request });
    return { status: response.status, body: await read(response) };
  } catch (error) {
    return { status: 0, error: readErrorCode(error) || describeCause(error) };
  }
}

/** Asks a server that may not be this service, and cancels its body, which may be endless. */
async function askForeign(url: string): Promise<Reply> {
  return ask(url, {}, (response) => response.body?.cancel());
}

/** @returns undefined without an admin key that a header can carry */
function createClient(url: string, adminKey: string | undefined): AdminClient | undefined {
  if (adminKey === undefined || !HEADER_VALUE.test(adminKey)) return undefined;
  return AdminClient.from(url, { ADMIN_API_KEY: adminKey });
}

/** @returns undefined when the service refuses the key, has no such route, or does not answer */
async function readIfAnswered<Body>(
  client: AdminClient | undefined,
  schema: z.ZodType<Body>,
  path: string,
  query?: Query,
): Promise<Body | undefined> {
  const read = client?.get(path, query).then((body) => client.requireShape(schema, body));
  return read?.catch(() => undefined);
}

export async function findUnreadyService(url: string): Promise<PlatformFinding | undefined> {
  const { status, body, error } = await ask(`${url}/health`);
  if (status === 200) return undefined;
  if (error !== undefined) {
    const remedy = `Start ${OWN_NAME}, or name its address with --url. ${NOT_TRIED}`;
    return broken(url, `${OWN_NAME} does not answer: ${error}.`, remedy);
  }
  const { data } = health.safeParse(body);
  if (!data) {
    const remedy = `Is this the address of ${OWN_NAME}? Name it with --url, or read the log of what answers there. ${NOT_TRIED}`;
    return broken(url, `/health answers ${status}, not as ${OWN_NAME} does.`, remedy);
  }
  const said = `/health answers ${status}`;
  const { database, clock } = data.details;
  if (database.status === 'up' && clock?.status === 'down') {
    const remedy = `Repair the time synchronisation (NTP) of its machine, or of the database if each replica says so. ${NOT_TRIED}`;
    return broken(url, `${said}: the clock of this replica is ${clock.message ?? 'wrong'}.`, remedy);
  }
  if (database.status === 'up') return broken(url, `${said}.`, `${READ_LOG} ${NOT_TRIED}`);
  const remedy = `Start its database, or read the log of ${OWN_NAME} for the cause. ${NOT_TRIED}`;
  return broken(url, `${said}: ${OWN_NAME} runs, and cannot use its database.`, remedy);
}

/**
 * Looks up each pair's key by its digest. None is presented to the service: that would be a use, and a daily doctor would
 * hide that a key is not used any more, or that the new key of a rotation was not delivered.
 */
async function checkCredentials(
  { plan, url, now, canCompare }: Checkup,
  client: AdminClient | undefined,
): Promise<PlatformFinding[]> {
  // The missing migrations are already a finding.
  if (canCompare === false) return [];
  const closed = await findUnreachableRoute(`${url}/internal/validate-app`);
  if (closed) return [closed];
  const found = [await findUnreachableRoute(`${url}/internal/changes`)].filter((finding) => finding !== undefined);
  const held = plan.services.flatMap(({ file, pairs }) => pairs.flatMap((pair) => readHeldKey(pair, file)));
  const keys = await lookUpKeys(held, client);
  if (!keys && held.length > 0 && canCompare === undefined)
    return [
      ...found,
      warning(url, 'No credential was looked up.', 'It needs the database, or an ADMIN_API_KEY that is accepted.'),
    ];
  for (const key of held) {
    const refusal = findRefusal(key, keys, now);
    if (refusal) found.push(refusal);
  }
  return found;
}

/** A proxy in front of the service may not know the route. Without a credential the service answers 401. */
async function findUnreachableRoute(route: string): Promise<PlatformFinding | undefined> {
  const { status, error } = await ask(route, { method: 'POST', body: {} });
  if (status === 401) return undefined;
  const what = `No verdict: ${error ?? `${status} from ${OWN_NAME}`}.`;
  return broken(route, what, status === 404 ? NAME_PORT : READ_LOG);
}

interface HeldKey {
  readonly pair: PlannedPair;
  readonly id: string;
  /** SHA-256 in hexadecimal. */
  readonly digest: string;
}

function readHeldKey(pair: PlannedPair, file: PlannedService['file']): HeldKey[] {
  const names = toCredentialVariables(pair.target);
  const [id, key] = [file.get(names.id), file.get(names.key)];
  if (id === undefined || key === undefined) return [];
  return [{ pair, id, digest: computeDigest(key).toString('hex') }];
}

/** @returns what the service knows of the keys by their digests; undefined without an admin key that it accepts */
async function lookUpKeys(
  held: readonly HeldKey[],
  client: AdminClient | undefined,
): Promise<IdentifiedKeys['items'] | undefined> {
  const digests = held.map(({ digest }) => digest);
  const known = client && (await identifyKeys(client, digests).catch(() => undefined));
  return known?.searched.includes('app') ? known.items : undefined;
}

/** @param known undefined when the service was not asked, and the database has the verdict */
function findRefusal(
  { pair, id, digest }: HeldKey,
  known: IdentifiedKeys['items'] | undefined,
  now: Date,
): PlatformFinding | undefined {
  // The plan does not recognise the previous key, which may be the one in the file; checkKeys() reports the overlap.
  if (!known && pair.credential?.app_id === id && isOverlapOpen(pair.credential, now)) return undefined;
  const where = formatPlace(pair);
  const isInDatabase = isDelivered(pair) && pair.credential?.app_id === id;
  const found = known?.get(digest);
  const live = found?.kind === 'app' && found.live ? found : undefined;
  if (known ? live?.id === id && live.owner === formatPair(pair) : isInDatabase) return undefined;
  if (live && live.owner !== formatPair(pair))
    return broken(
      where,
      `The credential in the file is that of ${live.owner}.`,
      `Run init, then restart ${pair.caller}.`,
    );
  // The plan compared this key with the database that the file names, so the running service uses another one.
  if (known && isInDatabase)
    return broken(
      where,
      `The key is valid in the database of ${OWN_NAME}.env, and not at the service.`,
      OTHER_DATABASE,
    );
  return broken(where, 'The credential in the file is refused.', `Run init, then restart ${pair.caller}.`);
}

/**
 * A service that refuses the ADMIN_API_KEY of its file was started with other secrets, so most likely with another
 * SECRET_KEY too.
 */
async function checkAdminKey(client: AdminClient | undefined): Promise<PlatformFinding | undefined> {
  const failure = await client?.get('/app-credentials', { limit: '1' }).catch((error: unknown) => error);
  if (!isFailure(failure, 'invalid_admin_key')) return undefined;
  return broken(
    `${OWN_NAME}.env: ADMIN_API_KEY`,
    'The running service refuses this ADMIN_API_KEY: it was started with other secrets.',
    `Restart ${OWN_NAME} with this file, from a shell that does not export these variables: an exported one wins over the file. ` +
      'Or write the SECRET_KEY, MASTER_KEY, ADMIN_API_KEY and AUDIT_SEAL_KEY with which it runs into the file, and run init.',
  );
}

/**
 * Only a node has its key, so `doctor` asks the service how it would judge the node: a restricted node must be refused
 * outside its targets, and its targets must be services of the map.
 */
export async function checkNodes(client: AdminClient | undefined, plan: Plan): Promise<PlatformFinding[]> {
  const names = plan.services.map(({ service }) => service.name);
  const nodes = await readIfAnswered(client, restrictedNodes, '/nodes/targets');
  const found: PlatformFinding[] = [];
  for (const { targets, live, node_id } of nodes?.items ?? []) {
    const where = `nodes with the targets ${targets.join(', ')} (${live})`;
    const unknown = targets.filter((target) => !names.includes(target));
    if (unknown.length > 0) {
      const remedy = 'Correct them with nodes update --targets, or add the services to the map.';
      found.push(warning(where, `The map has no service ${unknown.join(', ')}.`, remedy));
    }
    const outside = names.find((name) => !targets.includes(name));
    if (outside === undefined) continue;
    const path = joinPath('/nodes', node_id, 'explain');
    const explained = await readIfAnswered(client, explanation, path, { target: outside });
    if (explained?.accepted_now === true)
      found.push(broken(where, `${outside} would accept ${node_id}.`, `Restart ${OWN_NAME} with its present version.`));
  }
  return found;
}

/** The running service judges its settings, because a variable of its process overrides the file. */
export async function checkSettings(client: AdminClient | undefined): Promise<PlatformFinding[]> {
  const reviewed = await readIfAnswered(client, review, '/configuration-review');
  const remedy = `Set it, and restart ${OWN_NAME}.`;
  const settings = reviewed?.weak_settings ?? [];
  return settings.map(({ variable, detail }) => warning(`${OWN_NAME}: ${variable}`, `Weak: ${detail}.`, remedy));
}

/**
 * Verifiers of ES256 need the public keys. A service that still signs with SECRET_KEY publishes none, and a replica that
 * cannot decrypt one answers 503 about all.
 */
async function checkPublishedKeys({ algorithm }: TokenRules, url: string): Promise<PlatformFinding | undefined> {
  if (algorithm !== 'ES256') return undefined;
  const { status, body } = await ask(url + JWKS_PATH);
  if (status >= 500) return broken(url, `${JWKS_PATH} answers ${status}.`, READ_LOG);
  if (status !== 200 || (jwks.safeParse(body).data?.keys.length ?? 0) > 0) return undefined;
  const what = `ACCESS_TOKEN_ALGORITHM is ES256, and ${JWKS_PATH} has no key.`;
  return broken(url, what, `Restart ${OWN_NAME}, so that it reads its file again.`);
}

/** A GET delivers no log line, so only a missing response, a 5xx or a redirect is a problem. */
async function checkLoggingService(own: EnvFile | undefined): Promise<PlatformFinding | undefined> {
  const url = own?.get('LOGGING_SERVICE_URL');
  if (url === undefined) return undefined;
  const { status, error } = await askForeign(url);
  if (error === undefined && status < 500 && (status < 300 || status >= 400)) return undefined;
  return warning(
    `${OWN_NAME}.env: LOGGING_SERVICE_URL`,
    `The logging service ${error === undefined ? `answers ${status}` : `does not answer: ${error}`}.`,
    'Start it, or correct its address in the map and run init. Until then log lines go to the console only.',
  );
}

interface RunningService {
  readonly name: string;
  readonly url: string;
  /** Null when the service does not answer. */
  readonly status: number | null;
  readonly error?: string;
}

/** Asks each other service at its address, concurrently and without a credential: another program may listen there. */
export function askServices({ services }: PlatformMap): Promise<RunningService[]> {
  const others = services.filter(({ name }) => name !== OWN_NAME);
  return Promise.all(
    others.map(async ({ name, url }) => {
      const { status, error } = await askForeign(url);
      return error === undefined ? { name, url, status } : { name, url, status: null, error };
    }),
  );
}

/** Says what was not checked: only this service has a route that tells who it is. */
export function formatRunning(running: readonly RunningService[]): string {
  const lines = running.map(({ name, url, status, error = '' }) =>
    status === null
      ? `  ${name} does not answer at ${url}: ${error}. Start it, or correct the map.`
      : `  ${name}: ${url} answers ${status}. Whether it is ${name}, and has read ${name}.env, doctor cannot know.`,
  );
  const advice = 'When each last used its key: platform-auth apps list. A SERVICE_NAME that is not its own: its log.';
  return ['Running services:', ...lines, advice].join('\n');
}
