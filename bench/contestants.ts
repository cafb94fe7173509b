import { availableParallelism } from 'node:os';
import { z } from 'zod';
import { ApiClient } from '../tools/api-client.js';
import { withClient } from '../tools/postgres.js';
import { listExchanges } from './exchanges.js';
import { itemOf, createHttpContestant, createOwnRequests } from './loads.js';
import { createLoginFlood } from './login-flood.js';
import type { Contestant, Load } from './measure.js';
import { NAMES } from './names.js';
import { populate, type Known, type Maker, type Setting } from './population.js';
import { toAppRequest, toLoginRequest, toNodeRequest, createRefreshing, toUserRequest } from './requests.js';
import { listGoVerifiers } from './go.js';
import { listPythonVerifiers } from './python.js';
import type { BaselineKind, Testbed } from './testbed.js';
import { listVerifiers } from './verifiers.js';
import type { WorkKind, WorkTask } from './work-messages.js';

const passwordHashRow = z.object({ password_hash: z.string() });

/** Makes the wanted contestants, and starts only their processes. */
export async function makeContestants(
  testbed: Testbed,
  isWanted: (name: string) => boolean,
): Promise<{ contestants: Contestant[]; known: Known }> {
  const service = await testbed.startService();
  const client = new ApiClient(service.url, testbed.secrets.ADMIN_API_KEY);
  const known = await populate(client);
  const setting = { testbed, service, client, known };
  const contestants: Contestant[] = [];
  for (const [name, make] of [
    ...listServers(setting),
    ...listRoutes(setting),
    ...listExchanges(setting),
    ...listVerifiers(setting),
    ...listPythonVerifiers(setting),
    ...listGoVerifiers(setting),
  ])
    if (isWanted(name)) contestants.push(await make(name));
  return { contestants, known };
}

function listServers({ testbed, service, known }: Setting): [string, Maker][] {
  const nodes = known.nodes.map(({ node_id, api_key }) => [toNodeRequest(node_id, api_key)]);
  const apps = known.apps.map(({ app_id, app_key }) => [toAppRequest(app_id, app_key)]);
  // A baseline has one route, which receives the requests of validate-node.
  const baseline =
    (kind: BaselineKind, flags?: string[]): Maker =>
    async (name) => {
      const requests = nodes.map((own) => own.map((request) => ({ ...request, path: '/' })));
      return createOwnRequests(name, await testbed.startBaseline(kind, flags), requests);
    };
  const withoutCache: Maker = async (name) =>
    createOwnRequests(name, await testbed.startService({ REVOCATION_LEASE_MS: '0' }), nodes);
  return [
    [NAMES.http, baseline('http')],
    [NAMES.nest, baseline('nest')],
    [NAMES.stock, baseline('stock', [])],
    [NAMES.stockFlags, baseline('stock')],
    [NAMES.node, (name) => createOwnRequests(name, service, nodes)],
    [NAMES.app, (name) => createOwnRequests(name, service, apps)],
    [NAMES.nodeOff, withoutCache],
    [NAMES.pgHttp, baseline('pg')],
  ];
}

function listRoutes({ testbed, service, client, known }: Setting): [string, Maker][] {
  const databaseUrl = testbed.database.url();
  const { people, bearers } = known;
  const alone =
    <Kind extends WorkKind>(kind: Kind, task: WorkTask<Kind>): Maker =>
    async (name) => ({ name, load: await testbed.startWork(kind, task) });
  const users = bearers.map(({ userId, token }) => [toUserRequest(userId, token)]);
  const flood: Maker = (name) =>
    createLoginFlood({
      name,
      service,
      logins: people.map(toLoginRequest),
      connections: 2 * availableParallelism(),
      validation: chooseValidation(known),
    });
  return [
    [NAMES.pg, alone('pg', { databaseUrl, nodeIds: known.nodes.map(({ node_id }) => node_id) })],
    [NAMES.users, (name) => createOwnRequests(name, service, users)],
    [NAMES.usersAlone, alone('users', { databaseUrl, bearers: [...bearers] })],
    [NAMES.refresh, (name) => createRefreshing(name, service, client, known)],
    [NAMES.refreshAlone, alone('refresh', { databaseUrl, bearers: [...bearers] })],
    [NAMES.login, flood],
    [NAMES.bcrypt, async (name) => ({ name, load: await startBcrypt(testbed) })],
    [NAMES.live, (name) => createHttpContestant({ name, target: service, request: { path: '/health/live' } })],
  ];
}

/** The first node's request, for a load that sends only one. */
export function chooseValidation({ nodes }: Known) {
  const { node_id, api_key } = itemOf(nodes, 0);
  return toNodeRequest(node_id, api_key);
}

/** Compares a password with a hash that the service made. */
async function startBcrypt(testbed: Testbed): Promise<Load> {
  const { rows } = await withClient(testbed.database.url(), (client) =>
    client.query('SELECT password_hash FROM users LIMIT 1'),
  );
  const { password_hash: passwordHash } = passwordHashRow.parse(rows[0]);
  return testbed.startWork('bcrypt', { passwordHash, threads: availableParallelism() });
}
