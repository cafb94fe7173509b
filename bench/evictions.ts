// How long a revocation takes to reach a verifier.
import { setTimeout as sleep } from 'node:timers/promises';
import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { toSettings } from '../clients/typescript/src/options.js';
import { createSystemRuntime } from '../clients/typescript/src/runtime.js';
import { VerifierCore } from '../clients/typescript/src/verifier-core.js';
import type { ApiClient } from '../tools/api-client.js';
import { percentile } from '../tools/statistics.js';
import type { Contestant } from './measure.js';
import { toRequest } from './verifier-loads.js';
import type { OwnKey } from './work-messages.js';

const REVOCATIONS_PER_SECOND = 25;
const LOOK_INTERVAL_MS = 1;

interface Evictions {
  readonly name: string;
  readonly own: OwnKey;
  readonly client: ApiClient;
  readonly databaseUrl: string;
}

interface Watched {
  readonly id: string;
  readonly header: string;
  /** When the revocation was sent to the database: a little before its commit. */
  revokedAt?: number;
  evictedAt?: number;
}

/** Revokes remembered nodes in the database, and asks until each is no longer remembered. */
export function createEvictions({ name, own, client, databaseUrl }: Evictions): Contestant {
  const load = async (seconds: number) => {
    const nodes = await issueNodes(client, Math.round(seconds * REVOCATIONS_PER_SECOND));
    const verifier = createWatchingVerifier(own, nodes);
    const database = new pg.Client({ connectionString: databaseUrl });
    await database.connect();
    try {
      const verify = ({ header }: Watched): Promise<unknown> =>
        verifier.verifyNode(toRequest('X-API-Key', header)).catch(() => undefined);
      // Two rounds, because a verifier remembers nothing before its first poll is answered.
      for (let round = 0; round < 2; round += 1) {
        for (const node of nodes) await verify(node);
        await sleep(500);
      }
      const revoking = revokeAll(database, nodes);
      while (nodes.some(({ evictedAt }) => evictedAt === undefined)) {
        for (const node of nodes) if (node.revokedAt !== undefined && node.evictedAt === undefined) void verify(node);
        await sleep(LOOK_INTERVAL_MS);
      }
      await revoking;
    } finally {
      verifier.close();
      await database.end();
    }
    const delays = nodes.map(({ revokedAt = NaN, evictedAt = NaN }) => evictedAt - revokedAt);
    return { p50: percentile(delays, 0.5), p99: percentile(delays, 0.99) };
  };
  return { name, load };
}

/** The first question about a revoked node shows that it is not remembered any more. */
function createWatchingVerifier({ url, appId, appKey, serviceName }: OwnKey, nodes: readonly Watched[]): VerifierCore {
  const byHeader = new Map(nodes.map((node) => [node.header, node]));
  const runtime = createSystemRuntime();
  const { transport } = runtime;
  return new VerifierCore(toSettings({ url, appId, appKey, serviceName }), {
    ...runtime,
    transport: {
      send: (request, signal) => {
        const node = byHeader.get(request.headers['X-API-Key'] ?? '');
        if (node?.revokedAt !== undefined) node.evictedAt ??= performance.now();
        return transport.send(request, signal);
      },
      close: () => transport.close(),
    },
  });
}

async function issueNodes(client: ApiClient, count: number): Promise<Watched[]> {
  const household_id = randomUUID();
  const nodes: Watched[] = [];
  for (let index = 0; index < count; index += 1) {
    const { node_id, api_key } = await client.issueNode({ household_id, room: 'hall', name: `revoked ${index}` });
    nodes.push({ id: node_id, header: `${node_id}:${api_key}` });
  }
  return nodes;
}

/** Revokes in the database, because the service answers a revocation only after every verifier has applied it. */
async function revokeAll(database: pg.Client, nodes: readonly Watched[]): Promise<void> {
  for (const node of nodes) {
    await sleep((2_000 / REVOCATIONS_PER_SECOND) * Math.random());
    node.revokedAt = performance.now();
    await database.query('DELETE FROM nodes WHERE id = $1', [node.id]);
  }
}
