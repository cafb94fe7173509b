// What one call costs the service and PostgreSQL: docs/operations/sizing.md computes from these figures.
import { ApiClient } from '../tools/api-client.js';
import { readCpuMicroseconds } from '../tools/process-usage.js';
import { formatFigure, printHead, printRow } from '../tools/table.js';
import { createHttpContestant, createOwnRequests, itemOf } from './loads.js';
import type { Contestant } from './measure.js';
import { NAMES } from './names.js';
import { populate } from './population.js';
import { createRefreshing, toLoginRequest, toNodeRequest, toUserRequest } from './requests.js';
import type { Testbed } from './testbed.js';

const WARM_UP_SECONDS = 2;
const SECONDS = 6;
const LOGINS_AT_ONCE = 4;

/** Measures one call after the other. A bare node:http server comes first, so that runs can be compared. */
export async function measureCosts(testbed: Testbed): Promise<void> {
  const service = await testbed.startService();
  const known = await populate(new ApiClient(service.url, testbed.secrets.ADMIN_API_KEY));
  const nodes = known.nodes.map(({ node_id, api_key }) => toNodeRequest(node_id, api_key));
  const fresh = nodes.map((request) => [{ ...request, headers: { ...request.headers, 'Cache-Control': 'no-cache' } }]);
  const bare = await testbed.startBaseline('http');
  const contestants: Contestant[] = [
    createOwnRequests(
      NAMES.http,
      bare,
      nodes.map((request) => [{ ...request, path: '/' }]),
    ),
    createOwnRequests(
      'a validation from the cache',
      service,
      nodes.map((request) => [request]),
    ),
    createOwnRequests('a fresh question', service, fresh),
    createOwnRequests(
      'users/{id} (bearer)',
      service,
      known.bearers.map(({ userId, token }) => [toUserRequest(userId, token)]),
    ),
    createRefreshing('a refresh', service, new ApiClient(service.url, testbed.secrets.ADMIN_API_KEY), known),
    createHttpContestant({
      name: 'a login (bcrypt, cost 12)',
      target: service,
      connections: LOGINS_AT_ONCE,
      setupClient: (client, index) => client.setRequests([toLoginRequest(itemOf(known.people, index))]),
    }),
  ];
  const postmaster = await testbed.readPostmasterPid();
  console.log('\nCosts of one call\n');
  printHead(['call', 'a second', 'CPU µs, service', 'CPU µs, PostgreSQL']);
  for (const { name, load } of contestants) {
    await load(WARM_UP_SECONDS);
    const before = readCpuMicroseconds(postmaster);
    const { cpu, throughput = NaN } = await load(SECONDS);
    const postgres = (readCpuMicroseconds(postmaster) - before) / (throughput * SECONDS);
    printRow([name, formatFigure(throughput, throughput < 100 ? 1 : 0), formatFigure(cpu), formatFigure(postgres, 1)]);
  }
}
