import type { Command } from 'commander';
import { EXPIRY_NOTICE_DAYS, UNUSED_DAYS } from '../../config/limits.js';
import { callService, isFailure, parseBaseUrl, toRefusal } from '../http-client.js';
import { CommandFailedError, print } from '../terminal.js';
import { formatFields, type Cell } from '../tables.js';
import { addRemote, AdminClient, getServiceUrl, readOptions, readRemoteVariables } from './admin-client.js';
import type { UnusedScopesResponse } from '../../admin/app-credentials.admin.controller.js';
import type { BackgroundWorkResponse } from '../../admin/audit-events.admin.controller.js';
import type { KeyCountsResponse } from '../../admin/key.dto.js';

interface Health {
  readonly status: string;
  readonly details: Readonly<Record<string, { readonly status: string; readonly message?: string }>>;
}

/** `platform-auth status`: is the service healthy, and which credentials need attention? */
export function addStatusCommand(root: Command): void {
  addRemote(
    root,
    'status',
    'Show the health of the service, what waits in the background, and how many credentials are live, unused or about to expire. Exit code 1 when it is not healthy, or work is overdue.',
    '',
    'With ADMIN_API_KEY or ADMIN_API_KEY_FILE, in the environment or in .env, it also reads the background work and counts credentials.',
  ).action(async (_options, command: Command) => {
    const variables = readRemoteVariables();
    const url = parseBaseUrl(readOptions(command).url ?? getServiceUrl(variables));
    const health = await readHealth(url);
    const isCounting = variables.ADMIN_API_KEY !== undefined && health.status !== 'error';
    const client = isCounting ? AdminClient.from(variables, url) : undefined;
    const nodes = await readIfAllowed<KeyCountsResponse>(client, '/nodes/summary');
    const app_credentials = await readIfAllowed<KeyCountsResponse>(client, '/app-credentials/summary');
    const unused_scopes =
      (await readIfAllowed<UnusedScopesResponse>(client, '/app-credentials/unused-scopes'))?.items ?? null;
    const background_work = await readIfAllowed<BackgroundWorkResponse>(client, '/background-work');
    const details = Object.entries(health.details).map(([name, { status, message }]): [string, Cell] => [
      name,
      message === undefined ? status : `${status}: ${message}`,
    ]);
    print(command, { url, health, background_work, nodes, app_credentials, unused_scopes }, () =>
      formatFields({
        address: url,
        status: health.status,
        ...Object.fromEntries(details),
        ...(background_work && formatWork(background_work)),
        ...(nodes && { nodes: formatCounts(nodes) }),
        ...(app_credentials && { 'app credentials': formatCounts(app_credentials) }),
        ...(unused_scopes?.length && { 'unused scopes': formatScopes(unused_scopes) }),
      }),
    );
    if (health.status !== 'ok' && health.status !== 'degraded')
      throw new CommandFailedError(`${url} is not healthy. Read the log of the service.`, 'unhealthy');
    const overdue = background_work?.items.filter(({ is_overdue }) => is_overdue).map(({ name }) => name) ?? [];
    if (overdue.length > 0)
      throw new CommandFailedError(`Overdue: ${overdue.join(', ')}. See docs/operations/incidents.md.`, 'work_overdue');
  });
}

async function readHealth(url: string): Promise<Health> {
  const answer = await callService(url, '/health', { method: 'GET' });
  const { body } = answer;
  if (typeof body === 'object' && body !== null && 'details' in body) return body as Health;
  throw toRefusal(url, answer);
}

/** @returns null without a key, without the scope, and from a service of an older version */
async function readIfAllowed<Body>(client: AdminClient | undefined, path: string): Promise<Body | null> {
  try {
    return client ? await client.get<Body>(path) : null;
  } catch (error) {
    if (isFailure(error, 'missing_scope') || isFailure(error, 'not_found')) return null;
    throw error;
  }
}

/** `purge_age_seconds` of 240 is shown as "purge age  4 min". */
function formatWork({ items }: BackgroundWorkResponse): Record<string, string> {
  const lines = items.map(({ name, seconds, is_overdue }) => {
    const age = seconds < 120 ? `${seconds} s` : `${Math.floor(seconds / 60)} min`;
    return [name.replace(/_seconds$/, '').replaceAll('_', ' '), is_overdue ? `${age}: overdue` : age] as const;
  });
  return Object.fromEntries(lines);
}

function formatScopes(unused: UnusedScopesResponse['items']): string {
  const names = unused.map(({ caller, target, scope }) => `${caller} → ${target} ${scope}`);
  return `not asked for in ${UNUSED_DAYS} days: ${names.join(', ')}`;
}

function formatCounts({ live, ended, unused, expiring }: KeyCountsResponse): string {
  const parts = [`${live} live`, `${ended} revoked or expired`];
  if (unused > 0) parts.push(`${unused} not used for ${UNUSED_DAYS} days`);
  if (expiring > 0) parts.push(`${expiring} expiring within ${EXPIRY_NOTICE_DAYS} days`);
  return parts.join(', ');
}
