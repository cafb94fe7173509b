import {
  circuitBreaker,
  CircuitState,
  ConsecutiveBreaker,
  decorrelatedJitterGenerator,
  ExponentialBackoff,
  handleAll,
  type CircuitBreakerPolicy,
} from 'cockatiel';

const BATCH_LINES = 200;
const FLUSH_INTERVAL_MS = 1_000;
const MAX_WAITING_LINES = 5_000;
const DELIVERY_TIMEOUT_MS = 2_000;
const MIN_RETRY_DELAY_MS = 500;
const MAX_RETRY_DELAY_MS = 30_000;

interface LogShipperOptions<Line> {
  readonly url: string;
  /** This service's own app credential for the logging service. */
  readonly appId: string | undefined;
  readonly appKey: string | undefined;
  readonly onUndelivered: (lines: Line[]) => void;
  readonly onStateChange: (isDelivering: boolean) => void;
}

/**
 * Delivers log lines in batches to the logging service (`POST {"logs": [...]}`) with bounded memory, timeouts, and a
 * circuit breaker with backoff and jitter. Lines that the logging service refuses or does not accept in time go to the
 * console.
 */
export class LogShipper<Line> {
  private readonly waiting: Line[] = [];
  private delivery: Promise<void> | undefined;
  private isStopped = false;
  private readonly timer: NodeJS.Timeout;
  private readonly breaker: CircuitBreakerPolicy;

  constructor(private readonly options: LogShipperOptions<Line>) {
    this.breaker = circuitBreaker(handleAll, {
      breaker: new ConsecutiveBreaker(1),
      halfOpenAfter: new ExponentialBackoff({
        initialDelay: MIN_RETRY_DELAY_MS,
        maxDelay: MAX_RETRY_DELAY_MS,
        generator: decorrelatedJitterGenerator,
      }),
    });
    let wasDelivering = true;
    const report = (isDelivering: boolean): void => {
      if (isDelivering !== wasDelivering) options.onStateChange(isDelivering);
      wasDelivering = isDelivering;
    };
    this.breaker.onBreak(() => report(false));
    this.breaker.onReset(() => report(true));
    this.timer = setInterval(() => void this.flush(), FLUSH_INTERVAL_MS).unref();
  }

  get isDelivering(): boolean {
    return this.breaker.state === CircuitState.Closed;
  }

  get waitingLines(): number {
    return this.waiting.length;
  }

  /** @returns whether the line was accepted: one, as a probe, after a failure, and none after a stop */
  enqueue(line: Line): boolean {
    if (this.isStopped || this.waiting.length >= (this.isDelivering ? MAX_WAITING_LINES : 1)) return false;
    this.waiting.push(line);
    if (this.waiting.length >= BATCH_LINES && !this.delivery) void this.flush();
    return true;
  }

  /** Delivers the waiting lines. Never rejects: lines that cannot be delivered go to `onUndelivered`. */
  async flush(): Promise<void> {
    await this.delivery;
    this.delivery ??= this.deliverWaiting().finally(() => (this.delivery = undefined));
    await this.delivery;
  }

  async stop(): Promise<void> {
    this.isStopped = true;
    clearInterval(this.timer);
    await this.flush();
  }

  abandon(): void {
    this.isStopped = true;
    this.options.onUndelivered(this.waiting.splice(0));
  }

  // Excludes lines that arrive meanwhile, so that a stop under load ends.
  private async deliverWaiting(): Promise<void> {
    for (let left = this.waiting.length; left > 0;) {
      const lines = this.waiting.splice(0, Math.min(left, BATCH_LINES));
      left -= lines.length;
      await this.breaker.execute(() => this.deliver(lines)).catch(() => this.options.onUndelivered(lines));
    }
  }

  private async deliver(logs: Line[]): Promise<void> {
    const { url, appId, appKey } = this.options;
    const response = await fetch(url, {
      method: 'POST',
      headers: {
        'Content-Type': 'application/json',
        ...(appId !== undefined && { 'X-Platform-App-Id': appId }),
        ...(appKey !== undefined && { 'X-Platform-App-Key': appKey }),
      },
      body: JSON.stringify({ logs }),
      // Following a redirect would send the credential to another server.
      redirect: 'manual',
      signal: AbortSignal.timeout(DELIVERY_TIMEOUT_MS),
    });
    await response.body?.cancel();
    if (!response.ok) throw new Error(`The logging service answered ${response.status}`);
  }
}
