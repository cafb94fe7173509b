import { Command } from 'commander';
import { EXPIRY_NOTICE_DAYS, UNUSED_DAYS } from '../attention.js';
import { callService, parseBaseUrl, RefusedError, toRefusal } from '../http-client.js';
import { formatFields, type Cell } from '../tables.js';
import { CommandFailedError, print } from '../output.js';
import {
  DEFAULT_URL,
  type AdminClient,
  createClient,
  describeRemote,
  readOutput,
  readRemoteVariables,
  readUrl,
} from './admin-client.js';
import { countCredentials, type CredentialView } from './credential-commands.js';

interface Health {
  readonly status: string;
  readonly details: Readonly<Record<string, { readonly status: string; readonly message?: string }>>;
}
type Counts = ReturnType<typeof countCredentials>;

interface Status {
  readonly url: string;
  readonly health: Health;
  /** null when ADMIN_API_KEY is not set, or is the key of an operator that may not read them. */
  readonly nodes: Counts | null;
  readonly app_credentials: Counts | null;
}

/** `platform-auth status`: is the service healthy, and which credentials need attention? */
export function createStatusCommand(): Command {
  return describeRemote(
    new Command('status'),
    'Show the health of the service, and how many credentials are live, unused or about to expire. Exit code 1 when it is not healthy.',
    'status',
    'With ADMIN_API_KEY or ADMIN_API_KEY_FILE, in the environment or in .env, it also counts credentials.',
  ).action(async (_options, command: Command) => {
    const variables = readRemoteVariables();
    const url = parseBaseUrl(readUrl(command) ?? variables.AUTH_URL ?? DEFAULT_URL);
    const health = await readHealth(url);
    const isCounting = variables.ADMIN_API_KEY !== undefined && health.status !== 'error';
    const client = isCounting ? createClient(command) : undefined;
    const count = async (path: string): Promise<Counts | null> => (client ? countIfAllowed(client, path) : null);
    const status: Status = {
      url,
      health,
      nodes: await count('/nodes'),
      app_credentials: await count('/app-credentials'),
    };
    print(readOutput(command), status, formatStatus);
    if (health.status !== 'ok' && health.status !== 'degraded')
      throw new CommandFailedError(`${url} is not healthy. Read the log of the service.`, 'unhealthy');
  });
}

/** @returns null when the key belongs to an operator without a scope for the list */
async function countIfAllowed(client: AdminClient, path: string): Promise<Counts | null> {
  try {
    return countCredentials(await client.list<CredentialView>(path));
  } catch (error) {
    if (error instanceof RefusedError && error.code === 'missing_scope') return null;
    throw error;
  }
}

async function readHealth(url: string): Promise<Health> {
  const answer = await callService(url, '/health', { method: 'GET' });
  const { body } = answer;
  if (typeof body === 'object' && body !== null && 'details' in body) return body as Health;
  throw toRefusal(url, answer);
}

function formatStatus({ url, health, nodes, app_credentials }: Status): string {
  const details = Object.entries(health.details).map(([name, { status, message }]): [string, Cell] => [
    name,
    message === undefined ? status : `${status}: ${message}`,
  ]);
  return formatFields({
    address: url,
    status: health.status,
    ...Object.fromEntries(details),
    ...(nodes && { nodes: formatCounts(nodes) }),
    ...(app_credentials && { 'app credentials': formatCounts(app_credentials) }),
  });
}

function formatCounts({ live, ended, unused, expiring }: Counts): string {
  const parts = [`${live} live`, `${ended} revoked or expired`];
  if (unused > 0) parts.push(`${unused} not used for ${UNUSED_DAYS} days`);
  if (expiring > 0) parts.push(`${expiring} expiring within ${EXPIRY_NOTICE_DAYS} days`);
  return parts.join(', ');
}
