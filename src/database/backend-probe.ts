import { setTimeout as sleep } from 'node:timers/promises';
import { Client, type ClientConfig } from 'pg';
import type { FailFastClient } from './fail-fast-client.js';

const PROBE_INTERVAL_MS = 250;
const PROBE_TIMEOUT_MS = 1_000;

const BACKENDS = `SELECT pid, state LIKE 'idle%' AS is_idle FROM pg_stat_activity WHERE pid = ANY ($1)
  UNION ALL SELECT pg_backend_pid(), NULL`;

interface Backend {
  readonly pid: number;
  readonly is_idle: boolean | null;
}

/**
 * Finds stalled connections that will never be answered, and ends them: their backend has exited (PostgreSQL was
 * restarted, or failed over), or is idle because a packet was lost. TCP alone takes up to a quarter of an hour to
 * notice that. Polls on a connection of its own, while there are stalled connections.
 */
export class BackendProbe {
  private running = false;
  private client: Client | undefined;
  /** Idle at the last probe. The answer of a backend that has just become idle may still arrive. */
  private idle = new Set<FailFastClient>();

  constructor(
    private readonly config: ClientConfig,
    private readonly stalled: ReadonlySet<FailFastClient>,
  ) {}

  start(): void {
    if (this.running) return;
    this.running = true;
    void this.run();
  }

  private async run(): Promise<void> {
    const pause = (): Promise<void> => sleep(PROBE_INTERVAL_MS, undefined, { ref: false });
    await pause();
    while (this.stalled.size > 0) {
      // An unreachable database is probed again.
      await this.probe().catch(() => this.disconnect());
      await pause();
    }
    this.running = false;
    this.idle.clear();
    this.disconnect();
  }

  private async probe(): Promise<void> {
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
