import { Client, type ClientConfig, type QueryResult } from 'pg';

/** Undefined when the statement failed, or when the connection was lost and its effect is unknown. */
type LateResult = QueryResult | undefined;
type Callback = (error: Error | null | undefined, result?: QueryResult) => void;
type Release = (error?: Error | boolean) => void;

/** PostgreSQL did not answer in time. The statement continues there, and may be committed after its caller got a 503. */
export class UnansweredStatementError extends Error {
  override readonly name = 'UnansweredStatementError';

  /** @param lateResult settles when PostgreSQL answers after all, or the connection ends; never rejects */
  constructor(readonly lateResult: Promise<LateResult>) {
    super('PostgreSQL did not answer in time');
  }
}

/** Too many connections wait for statements that PostgreSQL has not answered: another write would only join them. */
export class WriteRefusedError extends Error {
  override readonly name = 'WriteRefusedError';
}

/** The pool that a connection belongs to. */
export interface StallObserver {
  readonly refusesWrites: boolean;
  stalled(client: FailFastClient): void;
  answered(client: FailFastClient): void;
}

export interface FailFastConfig extends ClientConfig {
  /** How long a caller waits for the answer to its statement. */
  readonly answerTimeoutMs: number;
}

const WRITES = /^\s*(insert|update|delete|merge|with)\b/i;

/**
 * A connection whose callers wait for a bounded time. When a statement is not answered in time its caller gets an error
 * at once, and the connection is **stalled**: it accepts no statements, and keeps its slot of the pool until the
 * backend answers or exits. Closing it would free the slot while the backend still waits (for a synchronous standby),
 * and each retry would add another backend. The statement is never cancelled: a backend that is cancelled while it
 * waits for a standby reports a commit that no standby has.
 */
export class FailFastClient extends Client {
  private observer: StallObserver | undefined;
  private lateResult: Promise<LateResult> | undefined;
  private releaseToPool: Release = () => undefined;
  private readonly answerTimeoutMs: number;
  private readonly releaseOnceAnswered: Release = (error) => {
    if (!this.lateResult) this.releaseToPool(error);
    else void this.lateResult.then(() => this.releaseToPool(error ?? true));
  };

  constructor(config: FailFastConfig) {
    super(config);
    this.answerTimeoutMs = config.answerTimeoutMs;
  }

  /** pg-pool sets this for each checkout; code that is done with the connection calls it. */
  set release(release: Release) {
    this.releaseToPool = release;
  }

  get release(): Release {
    return this.releaseOnceAnswered;
  }

  /** Process id of the backend, as PostgreSQL (or a pooler) reported it. */
  get backendPid(): number {
    return (this as unknown as { processID: number }).processID;
  }

  observe(observer: StallObserver): void {
    this.observer = observer;
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
    if (!this.observer?.refusesWrites) return undefined;
    const text = typeof statement === 'string' ? statement : (statement as { text: string }).text;
    return WRITES.test(text) ? new WriteRefusedError('Too many writes wait for PostgreSQL') : undefined;
  }

  private stall(lateResult: Promise<LateResult>): void {
    // An earlier statement of this connection is already overdue.
    if (this.lateResult) return;
    this.lateResult = lateResult;
    // The caller no longer listens, and an error without a listener would end the process.
    this.on('error', () => undefined);
    this.observer?.stalled(this);
    void lateResult.then(() => this.observer?.answered(this));
  }
}
