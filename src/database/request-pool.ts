/**
 * The connections of this process, and what happens to those whose statement PostgreSQL does not answer in time
 * (decision 41). Without it, test/database/stalled-commits.process.spec.ts fails.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, Pool, type ClientConfig, type PoolConfig } from 'pg';
import { FailFastClient, type StallObserver } from './fail-fast-client.js';

const PROBE_INTERVAL_MS = 250;
const PROBE_TIMEOUT_MS = 1_000;

const BACKENDS = `SELECT pid, state LIKE 'idle%' AS is_idle FROM pg_stat_activity WHERE pid = ANY ($1)
  UNION ALL SELECT pg_backend_pid(), NULL`;

interface Backend {
  readonly pid: number;
  readonly is_idle: boolean | null;
}

/**
 * `max` connections serve requests. Stalled ones (see {@link FailFastClient}) keep their slots, and up to half as many
 * again are opened in their place. Once that number is stalled, further writes are refused unsent, so that reads keep the
 * rest.
 */
export class RequestPool extends Pool implements StallObserver {
  private readonly size: number;
  private readonly spare: number;
  private readonly stalledClients = new Set<FailFastClient>();
  private readonly probe: BackendProbe;

  constructor(config: PoolConfig & { readonly max: number }) {
    super({ ...config, Client: FailFastClient as unknown as PoolConfig['Client'] });
    this.size = config.max;
    this.spare = Math.ceil(config.max / 2);
    this.probe = new BackendProbe(config, this.stalledClients);
    this.on('connect', (client) => (client as unknown as FailFastClient).observe(this));
  }

  /** Number of connections that wait for a late answer. */
  get stalledCount(): number {
    return this.stalledClients.size;
  }

  get refusesWrites(): boolean {
    return this.stalledClients.size >= this.spare;
  }

  stalled(client: FailFastClient): void {
    this.stalledClients.add(client);
    this.limitConnections();
    if (this.ending) {
      client.abandon();
      return;
    }
    this.probe.startPolling();
    // pg-pool does not notice that it may grow. A checkout makes it serve the waiting requests; when the checkout fails,
    // each of them gets its own error.
    if (this.waitingCount > 0) {
      this.connect().then(
        (spare) => spare.release(),
        () => undefined,
      );
    }
  }

  answered(client: FailFastClient): void {
    this.stalledClients.delete(client);
    this.limitConnections();
  }

  /** Does not wait for stalled connections: PostgreSQL commits their statements without this process. */
  override end(): Promise<void>;
  override end(callback: () => void): void;
  override end(callback?: () => void): Promise<void> | undefined {
    for (const client of this.stalledClients) client.abandon();
    if (!callback) return super.end();
    super.end(callback);
    return undefined;
  }

  private limitConnections(): void {
    this.options.max = this.size + Math.min(this.stalledClients.size, this.spare);
  }
}

/**
 * Finds stalled connections that will never be answered, and ends them: their backend has exited (PostgreSQL was
 * restarted, or failed over), or is idle because a packet was lost. TCP alone takes up to a quarter of an hour to
 * notice that. Polls on a connection of its own, while there are stalled connections.
 */
class BackendProbe {
  private running = false;
  private client: Client | undefined;
  /** Backends that were idle at the last probe. The answer of one that has just become idle may still arrive. */
  private idle = new Set<FailFastClient>();

  constructor(
    private readonly config: ClientConfig,
    private readonly stalled: ReadonlySet<FailFastClient>,
  ) {}

  startPolling(): void {
    if (this.running) return;
    this.running = true;
    void this.probeUntilAnswered();
  }

  private async probeUntilAnswered(): Promise<void> {
    const pause = (): Promise<void> => sleep(PROBE_INTERVAL_MS, undefined, { ref: false });
    await pause();
    while (this.stalled.size > 0) {
      // An unreachable database is probed again.
      await this.probeBackends().catch(() => this.disconnect());
      await pause();
    }
    this.running = false;
    this.idle.clear();
    this.disconnect();
  }

  private async probeBackends(): Promise<void> {
    this.client ??= await this.connect();
    const clients = [...this.stalled];
    const { rows } = await this.client.query<Backend>(BACKENDS, [clients.map(({ backendPid }) => backendPid)]);
    const own = (this.client as unknown as { processID: number }).processID;
    // Behind a pooler the ids are the pooler's, and do not identify backends.
    if (!rows.some(({ pid }) => pid === own)) return;
    const idleNow = new Set<FailFastClient>();
    for (const client of clients) {
      const backend = rows.find(({ pid }) => pid === client.backendPid);
      if (!backend || (backend.is_idle && this.idle.has(client))) client.abandon();
      else if (backend.is_idle) idleNow.add(client);
    }
    this.idle = idleNow;
  }

  private async connect(): Promise<Client> {
    const client = new Client({
      ...this.config,
      application_name: 'platform-auth-probe',
      connectionTimeoutMillis: PROBE_TIMEOUT_MS,
      query_timeout: PROBE_TIMEOUT_MS,
    });
    // A lost connection makes the next probe fail.
    client.on('error', () => undefined);
    await client.connect();
    return client;
  }

  private disconnect(): void {
    void this.client?.end().catch(() => undefined);
    this.client = undefined;
  }
}
