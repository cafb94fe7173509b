import type { Command } from 'commander';
import * as z from 'zod';
import { sumDays } from '../../foundation/common/hourly-counters.js';
import { EXPIRY_NOTICE_DAYS, UNUSED_DAYS } from '../../foundation/config/limits.js';
import { callService, isFailure, parseBaseUrl, toServiceError } from '../http-client.js';
import { CommandFailedError, print } from '../terminal.js';
import { formatFields, type Cell } from '../tables.js';
import { AdminClient, type Query } from './admin-client.js';
import { formatHours, readHours } from './hourly-history.js';
import { addRemote, getServiceUrl, readRemoteVariables } from './remote-command.js';

const MS_PER_DAY = 86_400_000;

const component = z.object({ status: z.string(), message: z.string().optional() });
const healthSchema = z.object({ status: z.string(), details: z.record(z.string(), component) });
const counts = z.object({ live: z.number(), ended: z.number(), unused: z.number(), expiring: z.number() });
const unusedScopes = z.object({
  items: z.array(z.object({ caller: z.string(), target: z.string(), scope: z.string() })),
});
const operators = z.object({ items: z.array(z.object({ name: z.string(), expires_at: z.string() })) });
const households = z.object({ items: z.array(z.object({ id: z.string(), name: z.string().nullable() })) });
const findings = z.object({
  items: z.array(
    z.object({ severity: z.string(), subject: z.object({ name: z.string() }).nullable(), detail: z.string() }),
  ),
});
const backgroundWork = z.object({
  items: z.array(z.object({ name: z.string(), seconds: z.number(), is_overdue: z.boolean() })),
});

const configurationReview = z.object({
  weak_settings: z.array(z.object({ variable: z.string(), detail: z.string() })),
  root_key_first_seen_at: z.string().nullable(),
});

/** `platform-auth status`: is the service healthy, and which credentials need attention? */
export function addStatusCommand(root: Command): void {
  addRemote(
    root,
    'status',
    'Show the health of the service, what waits in the background, how many credentials are live, unused or about to expire, how old the root key is, and which settings of production are weak. Exit code 1 when it is not healthy, work is overdue, or the key does not suffice to look.',
    '',
    'It needs ADMIN_API_KEY or ADMIN_API_KEY_FILE, in the environment or in .env, for the background work and the counts of credentials.',
  )
    .option('--history', 'what happened in each hour of the last day, beside the day before')
    .action(async ({ history }: { history?: true }, command: Command) => {
      if (history) return showHistory(command);
      const variables = readRemoteVariables();
      const url = parseBaseUrl(getServiceUrl(command, variables));
      const health = await readHealth(url);
      const isCounting = variables.ADMIN_API_KEY !== undefined && health.status !== 'error';
      const client = isCounting ? AdminClient.from(url, variables) : undefined;
      const counted = await readCounts(client);
      const { nodes, app_credentials } = counted;
      const background_work = await readIfAllowed(client, '/background-work', backgroundWork);
      const configuration = await readIfAllowed(client, '/configuration-review', configurationReview);
      const details = Object.entries(health.details).map(([name, { status, message }]): [string, Cell] => [
        name,
        message === undefined ? status : `${status}: ${message}`,
      ]);
      const answers = { 'background work': background_work, nodes, 'app credentials': app_credentials, configuration };
      const unseen = Object.entries(answers).flatMap(([name, answer]) => (answer === null ? [name] : []));
      print(command, { url, health, background_work, ...counted, configuration }, () =>
        formatFields({
          address: url,
          status: health.status,
          ...Object.fromEntries(details),
          ...(background_work && formatWork(background_work)),
          ...formatCounted(counted),
          ...(configuration && formatConfiguration(configuration)),
          ...(unseen.length > 0 && { 'not looked at': unseen.join(', ') }),
        }),
      );
      refuseProblems(url, { health, background_work, unseen, isKeyGiven: client !== undefined });
    });
}

/** A count is null when the key may not see it. */
async function readCounts(client: AdminClient | undefined) {
  const expires_before = new Date(Date.now() + EXPIRY_NOTICE_DAYS * MS_PER_DAY).toISOString();
  const expiring = { live: 'true', limit: '100', expires_before };
  return {
    nodes: await readIfAllowed(client, '/nodes/summary', counts),
    app_credentials: await readIfAllowed(client, '/app-credentials/summary', counts),
    expiring_operators: (await readIfAllowed(client, '/operators', operators, expiring))?.items ?? null,
    unused_scopes: (await readIfAllowed(client, '/app-credentials/unused-scopes', unusedScopes))?.items ?? null,
    households_without_admin:
      (await readIfAllowed(client, '/households', households, { without_admin: 'true' }))?.items ?? null,
    needs_a_person: (await readIfAllowed(client, '/findings', findings))?.items ?? null,
  };
}

async function showHistory(command: Command): Promise<void> {
  const variables = readRemoteVariables();
  const client = AdminClient.from(parseBaseUrl(getServiceUrl(command, variables)), variables);
  const hours = await readHours(client);
  print(command, { ...sumDays(hours), hours }, () => formatHours(hours));
}

interface Seen {
  readonly health: z.infer<typeof healthSchema>;
  readonly background_work: z.infer<typeof backgroundWork> | null;
  readonly unseen: readonly string[];
  readonly isKeyGiven: boolean;
}

/** @throws {CommandFailedError} for the worst that was seen, or for what could not be read */
function refuseProblems(url: string, { health, background_work, unseen, isKeyGiven }: Seen): void {
  if (health.status !== 'ok' && health.status !== 'degraded')
    throw new CommandFailedError(`${url} is not healthy. Read the log of the service.`, 'unhealthy');
  const overdue = background_work?.items.filter(({ is_overdue }) => is_overdue).map(({ name }) => name) ?? [];
  if (overdue.length > 0)
    throw new CommandFailedError(`Overdue: ${overdue.join(', ')}. See docs/operations/incidents.md.`, 'work_overdue');
  if (unseen.length === 0) return;
  const remedy = isKeyGiven
    ? 'The key needs the scope read, and AUTH_URL must be the address of INTERNAL_PORT where the service has one.'
    : 'Set ADMIN_API_KEY or ADMIN_API_KEY_FILE.';
  throw new CommandFailedError(`Not looked at: ${unseen.join(', ')}. ${remedy}`, 'not_looked_at');
}

async function readHealth(url: string): Promise<z.infer<typeof healthSchema>> {
  const answer = await callService(url, '/health', { method: 'GET' });
  if (healthSchema.safeParse(answer.body).success) return answer.body as z.infer<typeof healthSchema>;
  throw toServiceError(url, answer);
}

/** @returns null without a key, without the scope, or when only INTERNAL_PORT serves the admin door */
async function readIfAllowed<Body>(
  client: AdminClient | undefined,
  path: string,
  schema: z.ZodType<Body>,
  query?: Query,
): Promise<Body | null> {
  try {
    return client ? client.requireShape(schema, await client.get(path, query)) : null;
  } catch (error) {
    if (isFailure(error, 'missing_scope') || isFailure(error, 'not_found')) return null;
    throw error;
  }
}

function formatCounted(counted: Awaited<ReturnType<typeof readCounts>>): Record<string, string> {
  const { nodes, app_credentials, expiring_operators, unused_scopes, households_without_admin, needs_a_person } =
    counted;
  return {
    ...(nodes && { nodes: formatCounts(nodes) }),
    ...(app_credentials && { 'app credentials': formatCounts(app_credentials) }),
    ...(expiring_operators?.length && {
      [`operators expiring within ${EXPIRY_NOTICE_DAYS} days`]: formatOperators(expiring_operators),
    }),
    ...(unused_scopes?.length && { 'unused scopes': formatScopes(unused_scopes) }),
    ...(households_without_admin?.length && {
      'households without an active admin': formatHouseholds(households_without_admin),
    }),
    ...(needs_a_person?.length && { 'needs a person': formatFindings(needs_a_person) }),
  };
}

/** `purge_age_seconds` of 240 is shown as "purge age  4 min". */
function formatWork({ items }: z.infer<typeof backgroundWork>): Record<string, string> {
  const lines = items.map(({ name, seconds, is_overdue }) => {
    const age = seconds < 120 ? `${seconds} s` : `${Math.floor(seconds / 60)} min`;
    return [name.replace(/_seconds$/, '').replaceAll('_', ' '), is_overdue ? `${age}: overdue` : age] as const;
  });
  return Object.fromEntries(lines);
}

function formatConfiguration(review: z.infer<typeof configurationReview>): Record<string, string> {
  const { weak_settings: weak, root_key_first_seen_at: since } = review;
  const days = since === null ? 0 : Math.floor((Date.now() - Date.parse(since)) / MS_PER_DAY);
  return {
    ...(since !== null && { 'root key': `in use since ${since.slice(0, 10)} (${days} days)` }),
    ...Object.fromEntries(weak.map(({ variable, detail }) => [variable, detail] as const)),
  };
}

/** @returns the worst first */
function formatFindings(found: z.infer<typeof findings>['items']): string {
  const texts = found.map(({ severity, subject, detail }) =>
    [`${severity}:`, ...(subject ? [`${subject.name}:`] : []), detail].join(' '),
  );
  return texts.join('; ');
}

function formatOperators(found: z.infer<typeof operators>['items']): string {
  const names = found.map(({ name, expires_at }) => `${name} (${expires_at.slice(0, 10)})`);
  return `${names.length}: ${names.join(', ')}`;
}

function formatHouseholds(found: z.infer<typeof households>['items']): string {
  return found.map(({ id, name }) => (name === null ? id : `${name} (${id})`)).join(', ');
}

function formatScopes(unused: z.infer<typeof unusedScopes>['items']): string {
  const names = unused.map(({ caller, target, scope }) => `${caller} → ${target} ${scope}`);
  return `not asked for in ${UNUSED_DAYS} days: ${names.join(', ')}`;
}

function formatCounts({ live, ended, unused, expiring }: z.infer<typeof counts>): string {
  const parts = [`${live} live`, `${ended} revoked or expired`];
  if (unused > 0) parts.push(`${unused} not used for ${UNUSED_DAYS} days`);
  if (expiring > 0) parts.push(`${expiring} expiring within ${EXPIRY_NOTICE_DAYS} days`);
  return parts.join(', ');
}
