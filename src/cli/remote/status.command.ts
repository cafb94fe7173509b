import type { Command } from 'commander';
import { EXPIRY_NOTICE_DAYS, UNUSED_DAYS } from '../../config/limits.js';
import { callService, isFailure, parseBaseUrl, toRefusal } from '../http-client.js';
import { CommandFailedError, print } from '../terminal.js';
import { formatFields, type Cell } from '../tables.js';
import { addRemote, AdminClient, DEFAULT_URL, readOptions, readRemoteVariables } from './admin-client.js';
import type { Api } from './api-types.js';

interface Health {
  readonly status: string;
  readonly details: Readonly<Record<string, { readonly status: string; readonly message?: string }>>;
}
type Counts = Api['KeyCountsResponse'];
type Work = Api['BackgroundWorkResponse'];

const WORK_TEXTS: Readonly<Record<Exclude<keyof Work, 'overdue'>, [name: string, format: (age: string) => string]>> = {
  audit_unsealed_seconds: ['sealing', (age) => `${age} behind`],
  mail_waiting_seconds: ['mail', (age) => `the oldest waits for ${age}`],
  purge_age_seconds: ['purge', (age) => `${age} ago`],
  audit_maintenance_age_seconds: ['audit log', (age) => `maintained ${age} ago`],
  key_maintenance_age_seconds: ['keys', (age) => `maintained ${age} ago`],
};

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
    const url = parseBaseUrl(readOptions(command).url ?? variables.AUTH_URL ?? DEFAULT_URL);
    const health = await readHealth(url);
    const isCounting = variables.ADMIN_API_KEY !== undefined && health.status !== 'error';
    const client = isCounting ? AdminClient.from(variables, url) : undefined;
    const nodes = await readIfAllowed<Counts>(client, '/nodes/summary');
    const app_credentials = await readIfAllowed<Counts>(client, '/app-credentials/summary');
    const background_work = await readIfAllowed<Work>(client, '/background-work');
    const details = Object.entries(health.details).map(([name, { status, message }]): [string, Cell] => [
      name,
      message === undefined ? status : `${status}: ${message}`,
    ]);
    print(command, { url, health, background_work, nodes, app_credentials }, () =>
      formatFields({
        address: url,
        status: health.status,
        ...Object.fromEntries(details),
        ...(background_work && formatWork(background_work)),
        ...(nodes && { nodes: formatCounts(nodes) }),
        ...(app_credentials && { 'app credentials': formatCounts(app_credentials) }),
      }),
    );
    if (health.status !== 'ok' && health.status !== 'degraded')
      throw new CommandFailedError(`${url} is not healthy. Read the log of the service.`, 'unhealthy');
    if (background_work && background_work.overdue.length > 0)
      throw new CommandFailedError(
        `Work is overdue: ${background_work.overdue.join(', ')}. Read the log of the service, and docs/operations/incidents.md.`,
        'work_overdue',
      );
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

function formatWork({ overdue, ...seconds }: Work): Record<string, string> {
  const lines = Object.entries(WORK_TEXTS).map(([measure, [name, format]]) => {
    const isOverdue = overdue.some((each) => each === measure);
    return [name, `${format(formatAge(seconds[measure as keyof typeof seconds]))}${isOverdue ? ': OVERDUE' : ''}`];
  });
  return Object.fromEntries(lines) as Record<string, string>;
}

function formatAge(seconds: number): string {
  if (seconds < 120) return `${seconds} s`;
  return seconds < 7_200 ? `${Math.floor(seconds / 60)} min` : `${Math.floor(seconds / 3_600)} h`;
}

function formatCounts({ live, ended, unused, expiring }: Counts): string {
  const parts = [`${live} live`, `${ended} revoked or expired`];
  if (unused > 0) parts.push(`${unused} not used for ${UNUSED_DAYS} days`);
  if (expiring > 0) parts.push(`${expiring} expiring within ${EXPIRY_NOTICE_DAYS} days`);
  return parts.join(', ');
}
