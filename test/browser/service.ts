import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { EXAMPLES } from '../../src/foundation/common/names.js';
import type { Variables } from '../../src/foundation/config/environment.js';
import { claimPort } from '../../tools/claim-port.js';
import { ApiClient } from '../../tools/api-client.js';
import type { Cleanup } from '../../tools/cleanup.js';
import { makeTemporaryFolder } from '../../tools/postgres.js';
import { isHealthy, ServerProcess, type ServerOptions } from '../../tools/server-process.js';
import { SERVICE_FLAGS, SERVICE_SCRIPT } from '../../tools/service.js';

/** What is typed into the page's dialog, by the name of the security scheme. */
export type Credentials = Readonly<Record<'user' | 'app_id' | 'app_key' | 'node' | 'admin', string>>;

export interface FirstRun {
  readonly server: ServerProcess;
  readonly adminKey: string;
}

/** The built service on a free port, in a folder of its own with a database of its own: a first run. */
export async function startFirstRun(
  cleanup: Cleanup,
  variables: Variables = {},
  options: Pick<ServerOptions, 'onLine'> = {},
): Promise<FirstRun> {
  const folder = makeTemporaryFolder(cleanup, 'browser');
  const server = new ServerProcess(await claimPort(), {
    cleanup,
    script: SERVICE_SCRIPT,
    flags: SERVICE_FLAGS,
    variables: { HOME: process.env.HOME, BCRYPT_COST: '4', ...variables },
    cwd: folder,
    isReady: isHealthy,
    ...options,
  });
  // A killed service would leave its database running.
  cleanup.defer(() => server.stop());
  await server.start();
  return { server, adminKey: readAdminKey(folder) };
}

/** Logs in the user that the page has registered, issues an app credential and a node: with the page's examples. */
export async function makeCredentials({ server, adminKey }: FirstRun): Promise<Credentials> {
  const client = new ApiClient(server.url, adminKey);
  const { email, password, caller, target, householdId, room, name } = EXAMPLES;
  const { access_token: user } = await client.logIn({ email, password });
  const app = await client.issueAppCredential({ caller, target });
  const node = await client.issueNode({ household_id: householdId, room, name });
  const { app_id, app_key } = app;
  return { user, app_id, app_key, node: `${node.node_id}:${node.api_key}`, admin: adminKey };
}

function readAdminKey(folder: string): string {
  const [, key] = /^ADMIN_API_KEY=(.+)$/m.exec(readFileSync(join(folder, '.env'), 'utf8')) ?? [];
  if (key === undefined) throw new Error('The first run wrote no ADMIN_API_KEY');
  return key;
}
