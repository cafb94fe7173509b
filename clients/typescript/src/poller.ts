import type { RevocationLease } from '../../../packages/lease/src/lease.js';
import { isOwnKeyRefused, readPollAnswer } from './answers.js';
import type { Checks } from './checks.js';
import type { Settings } from './options.js';
import type { Runtime } from './runtime.js';
import type { ServiceClient } from './service-client.js';
import { ConnectionError, TimeoutError } from './transport.js';
import type { Uses } from './uses.js';

const POLLS_PER_LEASE = 3;
/** Used until the first answer tells the lease. */
const DEFAULT_LEASE_MS = 500;
const MAX_FAILURE_PAUSE_MS = 1_000;
/** Spreads the polls of verifiers that start together. */
const JITTER = 0.2;
const PATH = '/internal/changes';
/** Limits log lines about lapsed leases, because an overloaded machine loses several a second. */
const LAPSE_PAUSE_MS = 60_000;

/** The service could not read the poll, as an older one that does not know a field. */
class UnreadablePollError extends ConnectionError {
  override readonly name = 'UnreadablePollError';
}

/** Keeps the lease by polling for changes, one poll at a time. */
export class Poller {
  private leaseMs = DEFAULT_LEASE_MS;
  private failures = 0;
  private hasLease = false;
  private lapses = 0;
  private lapseLoggedAtMs = -Infinity;
  private isPolling = false;
  private isClosed = false;
  private cancelNext = (): void => undefined;

  constructor(
    private readonly settings: Settings,
    private readonly runtime: Runtime,
    private readonly client: ServiceClient,
    private readonly lease: RevocationLease,
    private readonly uses: Uses,
    private readonly checks: Checks,
  ) {}

  /** Starts polling; also again, after the service had no lease to hand on (REVOCATION_LEASE_MS=0). */
  start(): void {
    if (this.isPolling || this.isClosed) return;
    this.isPolling = true;
    void this.poll();
  }

  close(): void {
    this.isClosed = true;
    this.cancelNext();
  }

  private async poll(): Promise<void> {
    const sentAtMs = this.runtime.clocks.monotonic();
    const { uses, putBack } = this.uses.take(sentAtMs);
    try {
      let wasHeld = true;
      await this.lease.renew(async (cursor) => {
        const renewal = await this.ask({ cursor, ...(uses.length > 0 && { used: uses }) });
        wasHeld = this.lease.isHeld;
        return renewal;
      });
      this.reportLapse(wasHeld, sentAtMs);
      if (this.failures > 0) this.settings.logger.warn('verifier_polls_answered_again', { failures: this.failures });
      this.failures = 0;
      this.checks.misconfigurations.clear(PATH);
    } catch (error) {
      // Closing the verifier has broken the poll in flight.
      if (this.isClosed) return;
      // Uses that the service cannot read would make every later poll fail too.
      if (!(error instanceof UnreadablePollError)) putBack();
      if (this.failures === 0) {
        const { url, logger } = this.settings;
        logger.warn('verifier_polls_not_answered', { url, reason: toReason(error) });
      }
      this.failures += 1;
    }
    this.checks.serviceName.finish();
    if (this.isClosed) return;
    this.isPolling = this.leaseMs > 0;
    if (!this.isPolling) return;
    const next = (): void => void this.poll();
    this.cancelNext = this.runtime.schedule(next, this.computeDelayMs(sentAtMs), true);
  }

  /** Reports polls that are answered too late: the process or the service is too slow. An outage has log lines of its own. */
  private reportLapse(wasHeld: boolean, sentAtMs: number): void {
    const hadLease = this.hasLease;
    this.hasLease = this.leaseMs > 0;
    if (this.failures > 0 || !((hadLease && !wasHeld) || (this.hasLease && !this.lease.isHeld))) return;
    this.lapses += 1;
    const nowMs = this.runtime.clocks.monotonic();
    if (nowMs < this.lapseLoggedAtMs + LAPSE_PAUSE_MS) return;
    const waitedSeconds = Math.round(nowMs - sentAtMs) / 1_000;
    const fields = { lapses: this.lapses, answer_after_seconds: waitedSeconds };
    this.settings.logger.warn('verifier_lease_lapsed', fields);
    this.lapseLoggedAtMs = nowMs;
    this.lapses = 0;
  }

  private async ask(body: object) {
    const { url } = this.settings;
    const { answer } = await this.client.send({
      method: 'POST',
      url: url + PATH,
      headers: { 'Content-Type': 'application/json' },
      presentsOwnKey: true,
      body: JSON.stringify(body),
      isPoll: true,
    });
    this.checks.clock.compare(answer.headers.date);
    if (isOwnKeyRefused(answer)) this.lease.endGrace();
    const read = readPollAnswer(answer);
    if (read.kind === 'misconfigured') this.checks.misconfigurations.report(PATH, read.detail);
    if (read.kind !== 'renewal') {
      const PollError = answer.status === 400 ? UnreadablePollError : ConnectionError;
      throw new PollError('The poll was not answered', `status ${answer.status}`);
    }
    this.checks.serviceName.compare(answer.headers['x-platform-caller']);
    if (this.checks.serviceName.isWrong)
      throw new ConnectionError('The key is another service’s', 'the key of another service');
    this.leaseMs = read.leaseMs;
    // Without a lease nothing is held, whatever the grace.
    return read.leaseMs > 0 ? read.renewal : { ...read.renewal, freshForMs: -Infinity };
  }

  private computeDelayMs(sentAtMs: number): number {
    const intervalMs = this.leaseMs / POLLS_PER_LEASE;
    const backoffMs = Math.min(MAX_FAILURE_PAUSE_MS, intervalMs * 2 ** Math.min(this.failures - 1, 10));
    const jitter = 1 - JITTER * this.runtime.random();
    if (this.failures > 0) return backoffMs * jitter;
    return Math.max(0, sentAtMs + intervalMs * jitter - this.runtime.clocks.monotonic());
  }
}

/** Leaves out the message of an error, which may contain a credential. */
function toReason(error: unknown): string {
  if (error instanceof ConnectionError) return error.reason;
  return error instanceof TimeoutError ? 'no answer in time' : 'an unexpected error';
}
