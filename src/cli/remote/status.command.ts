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

/** `platform-auth status`: is the service healthy, and which credentials need attention? */
export function addStatusCommand(root: Command): void {
  addRemote(
    root,
    'status',
    'Show the health of the service, and how many credentials are live, unused or about to expire. Exit code 1 when it is not healthy.',
    '',
    'With ADMIN_API_KEY or ADMIN_API_KEY_FILE, in the environment or in .env, it also counts credentials.',
  ).action(async (_options, command: Command) => {
    const variables = readRemoteVariables();
    const url = parseBaseUrl(readOptions(command).url ?? variables.AUTH_URL ?? DEFAULT_URL);
    const health = await readHealth(url);
    const isCounting = variables.ADMIN_API_KEY !== undefined && health.status !== 'error';
    const client = isCounting ? AdminClient.from(variables, url) : undefined;
    const nodes = client ? await countIfAllowed(client, '/nodes') : null;
    const app_credentials = client ? await countIfAllowed(client, '/app-credentials') : null;
    const details = Object.entries(health.details).map(([name, { status, message }]): [string, Cell] => [
      name,
      message === undefined ? status : `${status}: ${message}`,
    ]);
    print(command, { url, health, nodes, app_credentials }, () =>
      formatFields({
        address: url,
        status: health.status,
        ...Object.fromEntries(details),
        ...(nodes && { nodes: formatCounts(nodes) }),
        ...(app_credentials && { 'app credentials': formatCounts(app_credentials) }),
      }),
    );
    if (health.status !== 'ok' && health.status !== 'degraded')
      throw new CommandFailedError(`${url} is not healthy. Read the log of the service.`, 'unhealthy');
  });
}

async function readHealth(url: string): Promise<Health> {
  const answer = await callService(url, '/health', { method: 'GET' });
  const { body } = answer;
  if (typeof body === 'object' && body !== null && 'details' in body) return body as Health;
  throw toRefusal(url, answer);
}

/** @returns null when the key belongs to an operator without a scope for these keys */
async function countIfAllowed(client: AdminClient, path: string): Promise<Counts | null> {
  try {
    return await client.get<Counts>(`${path}/summary`);
  } catch (error) {
    if (isFailure(error, 'missing_scope')) return null;
    throw error;
  }
}

function formatCounts({ live, ended, unused, expiring }: Counts): string {
  const parts = [`${live} live`, `${ended} revoked or expired`];
  if (unused > 0) parts.push(`${unused} not used for ${UNUSED_DAYS} days`);
  if (expiring > 0) parts.push(`${expiring} expiring within ${EXPIRY_NOTICE_DAYS} days`);
  return parts.join(', ');
}
