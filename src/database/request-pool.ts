import { Pool, type PoolConfig } from 'pg';
import { BackendProbe } from './backend-probe.js';
import { FailFastClient, type StallObserver } from './fail-fast-client.js';

/**
 * The connections of this process. `max` of them serve requests. Stalled ones (see {@link FailFastClient}) keep their
 * slots; half as many again may be opened in their place, and no more, whatever happens (docs/decisions/0041).
 * Once that many are stalled, further writes are refused unsent: reads keep what is left. Connections that are not
 * answered because the database is gone are found by a probe, which frees their slots.
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

  /** Connections that wait for a late answer. */
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
    this.probe.start();
    // pg-pool does not notice that it may grow: a checkout wakes the requests that wait.
    if (this.waitingCount > 0) {
      this.connect((_error, _client, release) => {
        release();
      });
    }
  }

  answered(client: FailFastClient): void {
    this.stalledClients.delete(client);
    this.limitConnections();
  }

  /** Does not wait for stalled connections: what they sent is committed without this process. */
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
