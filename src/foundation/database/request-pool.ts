// The connections of this process, and what becomes of those whose statement PostgreSQL does not answer in time
// (decision 41). test/foundation/database/stalled-commits.process.spec.ts fails without it.

import { setTimeout as sleep } from 'node:timers/promises';
import { Client, Pool, type ClientConfig, type PoolConfig, type QueryResult } from 'pg';

const PROBE_INTERVAL_MS = 250;
const PROBE_TIMEOUT_MS = 1_000;

const BACKENDS = `SELECT pid, state LIKE 'idle%' AS is_idle FROM pg_stat_activity WHERE pid = ANY ($1)
  UNION ALL SELECT pg_backend_pid(), NULL`;

interface Backend {
  readonly pid: number;
  readonly is_idle: boolean | null;
}

const ignore = (): void => undefined;

/**
 * The late result of a statement; undefined when it failed, or when the connection was lost and its effect is unknown.
 */
type LateResult = QueryResult | undefined;
type Callback = (error: Error | null | undefined, result?: QueryResult) => void;
type Release = (error?: Error | boolean) => void;

/** PostgreSQL did not answer in time. It continues with the statement, and may commit it after the caller got a 503. */
export class UnansweredStatementError extends Error {
  override readonly name = 'UnansweredStatementError';

  /** @param lateResult resolves when PostgreSQL answers after all, or the connection ends; never rejects */
  constructor(readonly lateResult: Promise<LateResult>) {
    super('PostgreSQL did not answer in time');
  }
}

/** Too many connections wait for late answers, so another write would only wait too. */
export class WriteRefusedError extends Error {
  override readonly name = 'WriteRefusedError';
}

const WRITES = /^\s*(insert|update|delete|merge|with)\b/i;

/**
 * A connection whose callers wait for a bounded time. A statement that is not answered in time fails at once and leaves
 * the connection **stalled**: it accepts no statements and keeps its slot of the pool until the backend answers or
 * exits.
 * Closing it would free the slot while the backend still waits (for a synchronous standby), and each retry would add
 * another; cancelling would make the backend report a commit that no standby has.
 */
class FailFastClient extends Client {
  owner: RequestPool | undefined;
  private lateResult: Promise<LateResult> | undefined;
  private releaseToPool: Release = () => undefined;
  /** How long a caller waits for an answer. */
  private readonly answerTimeoutMs: number;
  private readonly releaseOnceAnswered: Release = (error) => {
    if (!this.lateResult) this.releaseToPool(error);
    else void this.lateResult.then(() => this.releaseToPool(error ?? true));
  };

  constructor(config: ClientConfig & { readonly answerTimeoutMs: number }) {
    super(config);
    this.answerTimeoutMs = config.answerTimeoutMs;
    // An error without a listener would end the process: for a moment of each checkout there is none but this, and after a
    // stall no caller listens any more.
    this.on('error', ignore);
  }

  /** pg-pool sets this at each checkout, and the code that is done with the connection calls it. */
  set release(release: Release) {
    this.releaseToPool = release;
  }

  get release(): Release {
    return this.releaseOnceAnswered;
  }

  /** The process id that PostgreSQL, or a pooler, announced for the backend. */
  get backendPid(): number {
    return (this as unknown as { processID: number }).processID;
  }

  override query(statement: unknown, values?: unknown, callback?: (...result: never[]) => void): never {
    const done = (callback ?? values) as Callback | undefined;
    if (typeof done === 'function') {
      this.send(statement, callback ? values : undefined, done);
      return undefined as never;
    }
    return new Promise((resolve, reject) => {
      this.send(statement, values, (error, result) => {
        if (error) reject(error);
        else resolve(result);
      });
    }) as never;
  }

  /** Closes a stalled connection without waiting for the backend. */
  abandon(): void {
    this.connection.stream.destroy();
  }

  private send(statement: unknown, values: unknown, callback: Callback): void {
    const refusal = this.createRefusal(statement);
    if (refusal) {
      process.nextTick(callback, refusal);
      return;
    }
    let settle: ((result: LateResult) => void) | undefined;
    const timer = setTimeout(() => {
      const lateResult = new Promise<LateResult>((resolve) => (settle = resolve));
      this.stall(lateResult);
      callback(new UnansweredStatementError(lateResult));
    }, this.answerTimeoutMs);
    super.query(statement as string, values as unknown[], (error: Error | null | undefined, result: QueryResult) => {
      clearTimeout(timer);
      if (settle) settle(error ? undefined : result);
      else callback(error, result);
    });
  }

  private createRefusal(statement: unknown): Error | undefined {
    if (this.lateResult) return new Error('Connection terminated: an earlier statement was not answered in time');
    if (!this.owner?.refusesWrites) return undefined;
    const text = typeof statement === 'string' ? statement : (statement as { text: string }).text;
    return WRITES.test(text) ? new WriteRefusedError('Too many writes wait for PostgreSQL') : undefined;
  }

  private stall(lateResult: Promise<LateResult>): void {
    // An earlier statement has already stalled this connection.
    if (this.lateResult) return;
    this.lateResult = lateResult;
    this.owner?.markStalled(this);
    void lateResult.then(() => this.owner?.markAnswered(this));
  }
}

/**
 * Of `max` connections, stalled ones (see {@link FailFastClient}) keep their slots, and up to half of `max` are opened
 * in their place. When that many are stalled, writes are refused unsent, so that reads keep the remaining connections.
 */
export class RequestPool extends Pool {
  private readonly size: number;
  private readonly spare: number;
  private readonly stalledClients = new Set<FailFastClient>();
  private readonly probe: BackendProbe;

  constructor(config: PoolConfig & { readonly max: number }) {
    super({ ...config, Client: FailFastClient as unknown as PoolConfig['Client'] });
    this.size = config.max;
    this.spare = Math.ceil(config.max / 2);
    this.probe = new BackendProbe(config, this.stalledClients);
    this.on('connect', (client) => ((client as unknown as FailFastClient).owner = this));
  }

  /** Number of connections that wait for late answers. */
  get stalledCount(): number {
    return this.stalledClients.size;
  }

  get refusesWrites(): boolean {
    return this.stalledClients.size >= this.spare;
  }

  markStalled(client: FailFastClient): void {
    this.stalledClients.add(client);
    this.limitConnections();
    if (this.ending) {
      client.abandon();
      return;
    }
    this.probe.startPolling();
    // pg-pool does not notice that its limit grew. A checkout makes it serve the waiting requests, and if it fails each
    // of them gets its own error.
    if (this.waitingCount > 0) void this.connect().then((spare) => spare.release(), ignore);
  }

  markAnswered(client: FailFastClient): void {
    this.stalledClients.delete(client);
    this.limitConnections();
  }

  /** Abandons stalled connections, because PostgreSQL finishes their statements without this process. */
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
 * Finds and closes stalled connections that will never be answered, because their backend has exited (a restart, a
 * failover) or is idle after a lost packet; TCP alone takes up to 15 minutes to notice. Polls on a connection of its
 * own, while any connection is stalled.
 */
class BackendProbe {
  private running = false;
  private client: Client | undefined;
  /** Connections whose backend was idle at the last probe too: an answer that was just sent may still arrive. */
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
      // The next probe connects again.
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
    // A pooler announces ids of its own, which identify no backend.
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
    client.on('error', ignore);
    await client.connect();
    return client;
  }

  private disconnect(): void {
    void this.client?.end().catch(ignore);
    this.client = undefined;
  }
}
