// The cost of verifiers that poll: one replica's share of it, and, with `npm run bench -- polls`, fleets of them at two
// replicas.
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { ApiClient } from '../tools/api-client.js';
import { withClient } from '../tools/postgres.js';
import { readCpuMicroseconds, readMaxOpenFiles, readResidentMegabytes } from '../tools/process-usage.js';
import { percentile } from '../tools/statistics.js';
import { formatFigure, printTable } from '../tools/table.js';
import type { Contestant } from './measure.js';
import { PollingFleet, type PollCounts } from './polling-fleet.js';
import { LEASE_MS } from './targets.js';
import type { Service, Target, Testbed } from './testbed.js';
import type { OwnKey } from './work-messages.js';

interface Polling {
  readonly name: string;
  readonly verifiers: number;
  readonly service: Target;
  readonly own: OwnKey;
}

/** Measures the CPU of the service while they poll, less that of an idle service. Nothing changes meanwhile. */
export function createPolling({ name, verifiers, service, own }: Polling): Contestant {
  const load = async (seconds: number) => {
    const idle = await measureCores([service.pid], () => sleep(seconds * 1_000));
    const fleet = await PollingFleet.connect({ count: verifiers, keys: [own], leaseMs: LEASE_MS });
    const busy = await measureCores([service.pid], () => fleet.measure(seconds));
    fleet.close();
    return { core: Math.max(0, busy.percent - idle.percent), throughput: busy.result.polls / seconds };
  };
  return { name, load };
}

/** @returns percent of one core that the processes use during the work */
async function measureCores<Result>(
  pids: readonly number[],
  work: () => Promise<Result>,
): Promise<{ result: Result; percent: number }> {
  const readAll = (): number => pids.reduce((sum, pid) => sum + readCpuMicroseconds(pid), 0);
  const startedAt = performance.now();
  const before = readAll();
  const result = await work();
  return { result, percent: (readAll() - before) / (10 * (performance.now() - startedAt)) };
}

const MAX_LEASE_MS = 5_000;
/** At the longest lease, ten times as many verifiers poll as often as at the default one. */
const FLEETS = [
  { verifiers: 1_000, leaseMs: LEASE_MS },
  { verifiers: 1_000, leaseMs: MAX_LEASE_MS },
  { verifiers: 10_000, leaseMs: MAX_LEASE_MS },
];
const REPLICAS = 2;
/** Each service has many processes, which present the same key. */
const SERVICES = 50;
const SECONDS = 15;
/** The revoking calls in flight: each revoker makes one after the other. */
const REVOKERS = 4;
/** Sessions end while a fleet polls, so that cursors do not stay the newest, as on a real platform. */
const ENDED_SESSIONS_PER_SECOND = 20;
const RETRY_DELAY_MS = 100;
const FILES_BESIDE_CONNECTIONS = 200;

const connectionCount = z.tuple([z.object({ count: z.number() })]);

interface Change {
  /** How long each revoking call took, in milliseconds. */
  readonly waits: readonly number[];
}

interface FleetResult extends PollCounts, Change {
  readonly verifiers: number;
  readonly leaseMs: number;
  /** Percent of one core, less what the same changes take while no verifier polls. */
  readonly replicas: number;
  readonly postgres: number;
  readonly client: number;
  readonly postgresConnections: number;
  /** The resident memory of one replica. */
  readonly megabytes: number;
}

export async function measureFleets(testbed: Testbed): Promise<void> {
  const results: FleetResult[] = [];
  for (const leaseMs of new Set(FLEETS.map((fleet) => fleet.leaseMs))) {
    const platform = await Platform.start(testbed, leaseMs);
    const [idleReplicas, idlePostgres] = await platform.measureCores(() => platform.changeFor(SECONDS));
    for (const { verifiers } of FLEETS.filter((fleet) => fleet.leaseMs === leaseMs)) {
      const most = (readMaxOpenFiles() ?? Infinity) - FILES_BESIDE_CONNECTIONS;
      if (verifiers > most) {
        console.error(`Left out: ${verifiers} verifiers. This process may open ${most} connections; see ulimit -Hn.`);
        continue;
      }
      process.stderr.write(`${verifiers} verifiers, lease ${leaseMs} ms\n`);
      const fleet = await PollingFleet.connect({ count: verifiers, keys: platform.keys, leaseMs, reportsUse: true });
      const cpu = process.cpuUsage();
      const [replicas, postgres, [counts, { waits }]] = await platform.measureCores(() =>
        Promise.all([fleet.measure(SECONDS), platform.changeFor(SECONDS)]),
      );
      const { user, system } = process.cpuUsage(cpu);
      const postgresConnections = await platform.countConnections();
      const megabytes = platform.readMegabytes();
      fleet.close();
      results.push({
        ...counts,
        verifiers,
        leaseMs,
        waits,
        replicas: replicas - idleReplicas,
        postgres: Math.max(0, postgres - idlePostgres),
        client: (user + system) / (10_000 * SECONDS),
        postgresConnections,
        megabytes,
      });
    }
  }
  printFleets(results);
}

/** Two replicas with a database of their own, because a revoking call waits for the longest lease of all replicas. */
class Platform {
  private constructor(
    private readonly replicas: readonly Service[],
    private readonly databaseUrl: string,
    private readonly postmasterPid: number,
    private readonly client: ApiClient,
    readonly keys: readonly OwnKey[],
  ) {}

  static async start(testbed: Testbed, leaseMs: number): Promise<Platform> {
    const name = `lease_${leaseMs}`;
    const { SECRET_KEY: secretKey, ADMIN_API_KEY } = testbed.secrets;
    await withClient(testbed.database.url(), (client) => client.query(`CREATE DATABASE ${name}`));
    const pid = await testbed.readPostmasterPid();
    const replicas: Service[] = [];
    while (replicas.length < REPLICAS)
      replicas.push(await testbed.startService({ REVOCATION_LEASE_MS: String(leaseMs) }, name));
    const client = new ApiClient(replicas[0]?.url ?? '', ADMIN_API_KEY);
    const keys: OwnKey[] = [];
    for (let index = 0; index < SERVICES; index += 1) {
      const serviceName = `recipes-${index}`;
      const { app_id: appId, app_key: appKey } = await client.issueAppCredential({
        caller: serviceName,
        target: 'auth',
      });
      keys.push(...replicas.map(({ url }) => ({ url, appId, appKey, serviceName, secretKey })));
    }
    return new Platform(replicas, testbed.database.url(name), pid, client, keys);
  }

  /** @returns percent of one core of the replicas and of PostgreSQL, and the result of the work */
  async measureCores<Result>(work: () => Promise<Result>): Promise<[number, number, Result]> {
    const replicas = this.replicas.map(({ pid }) => pid);
    const { result, percent } = await measureCores(replicas, () => measureCores([this.postmasterPid], work));
    return [percent, result.percent, result.result];
  }

  /** Revokes keys one after the other, while sessions end. */
  async changeFor(seconds: number): Promise<Change> {
    const endAt = performance.now() + 1_000 * seconds;
    const waits: number[] = [];
    const revoke = async (): Promise<void> => {
      const credential = await this.client.issueAppCredential({ caller: `gone-${randomUUID()}`, target: 'auth' });
      const startedAt = performance.now();
      await this.client.revokeAppCredential(credential);
      waits.push(performance.now() - startedAt);
    };
    // Repeats a 503, which a busy machine may cause.
    const revokeOnAndOn = async (): Promise<void> => {
      while (performance.now() < endAt) await revoke().catch(() => sleep(RETRY_DELAY_MS));
    };
    const endSessions = (): Promise<void> =>
      withClient(this.databaseUrl, async (client) => {
        // Writes what the trigger of an ended session writes.
        const end = `INSERT INTO credential_changes (kind, credential_id) VALUES ('session', gen_random_uuid())`;
        while (performance.now() < endAt) {
          await client.query(end);
          await sleep(1_000 / ENDED_SESSIONS_PER_SECOND);
        }
      });
    await Promise.all([endSessions(), ...Array.from({ length: REVOKERS }, revokeOnAndOn)]);
    return { waits };
  }

  readMegabytes(): number {
    return Math.max(...this.replicas.map(({ pid }) => readResidentMegabytes(pid) ?? NaN));
  }

  countConnections(): Promise<number> {
    return withClient(this.databaseUrl, async (client) => {
      const { rows } = await client.query(
        `SELECT count(*)::int FROM pg_stat_activity
         WHERE datname = current_database() AND pid <> pg_backend_pid()`,
      );
      return connectionCount.parse(rows)[0].count;
    });
  }
}

function printFleets(results: readonly FleetResult[]): void {
  console.log(`\nNode ${process.version}, ${REPLICAS} replicas, ${SECONDS} s each; CPU in percent of one core\n`);
  const head = ['verifiers', 'lease, ms', 'polls/s', 'CPU of the replicas', 'µs a poll', 'CPU of PostgreSQL'];
  const more = [
    'its connections',
    'MB of a replica',
    'poll p50, p99, ms',
    'bytes sent, received',
    'failed',
    'late',
    'client’s CPU',
  ];
  printTable(
    [...head, ...more, 'revoking call p50, max, ms'],
    results.map((result) => [
      result.verifiers,
      result.leaseMs,
      formatFigure(result.polls / SECONDS),
      formatFigure(result.replicas, 1),
      formatFigure((result.replicas * SECONDS * 10_000) / result.polls),
      formatFigure(result.postgres, 1),
      result.postgresConnections,
      formatFigure(result.megabytes),
      `${formatFigure(result.p50, 1)}, ${formatFigure(result.p99, 1)}`,
      `${formatFigure(result.bytesSent)}, ${formatFigure(result.bytesReceived)}`,
      result.failed,
      result.late,
      formatFigure(result.client, 1),
      `${formatFigure(percentile(result.waits, 0.5))}, ${formatFigure(Math.max(...result.waits))}`,
    ]),
  );
}
