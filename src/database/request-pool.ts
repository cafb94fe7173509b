import { Pool, type PoolConfig } from 'pg';
import { BackendProbe } from './backend-probe.js';
import { FailFastClient, type StallObserver } from './fail-fast-client.js';

/**
 * The connections of this process. `max` of them serve requests. Stalled ones (see {@link FailFastClient}) keep their
 * slots; at most half as many again are opened in their place (docs/decisions/0041). Once that number is stalled,
 * further writes are refused unsent, so that reads keep the rest. A probe finds stalled connections whose backend has
 * exited, and frees their slots.
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
    this.probe.start();
    // pg-pool does not notice that it may grow: a checkout makes it serve the waiting requests.
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
