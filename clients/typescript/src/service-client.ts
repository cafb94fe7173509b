import { isOwnKeyRefused } from './answers.js';
import type { OwnKey } from './own-key.js';
import { ConnectionError, TimeoutError, type ServiceAnswer, type ServiceRequest } from './transport.js';
import { pause, type Runtime } from './runtime.js';

const ATTEMPT_TIMEOUT_MS = 1_000;
const MIN_RETRY_PAUSE_MS = 20;
const RETRY_PAUSE_JITTER_MS = 80;

/** An answer, and the moment when its attempt was sent, from which its lease counts. */
export interface TimedAnswer {
  readonly answer: ServiceAnswer;
  readonly sentAtMs: number;
  readonly sentAtWallMs: number;
}

/** Sends requests to the authentication service, with bounded waits. */
export class ServiceClient {
  constructor(
    private readonly runtime: Runtime,
    private readonly ownKey: OwnKey,
  ) {}

  /**
   * Presents the own key where the request asks for it. After a refusal the key's file is read again, because the key
   * may have been rotated.
   * @param deadlineMs by the monotonic clock; one attempt takes a second at most, unless the request says otherwise
   * @throws {ConnectionError} {TimeoutError}
   */
  async send(request: ServiceRequest, deadlineMs = Infinity): Promise<TimedAnswer> {
    if (!request.presentsOwnKey) return this.sendOnce(request, deadlineMs);
    const { ownKey } = this;
    const { version } = ownKey;
    const attempt = () =>
      this.sendOnce({ ...request, headers: { ...request.headers, ...ownKey.toHeaders() } }, deadlineMs);
    const timed = await attempt();
    return isOwnKeyRefused(timed.answer) && ownKey.replaceRefused(version) ? attempt() : timed;
  }

  private async sendOnce(request: ServiceRequest, deadlineMs: number): Promise<TimedAnswer> {
    const { clocks, transport } = this.runtime;
    const sentAtMs = clocks.monotonic();
    const sentAtWallMs = clocks.wall();
    const timeoutMs = Math.min(request.timeoutMs ?? ATTEMPT_TIMEOUT_MS, deadlineMs - sentAtMs);
    if (timeoutMs <= 0) throw new TimeoutError('No answer in time');
    const controller = new AbortController();
    let cancel = (): void => undefined;
    const timeout = new Promise<never>((_resolve, reject) => {
      cancel = this.runtime.schedule(
        () => {
          reject(new TimeoutError('No answer in time'));
          controller.abort();
        },
        timeoutMs,
        request.isPoll ?? false,
      );
    });
    try {
      const answer = await Promise.race([transport.send(request, controller.signal), timeout]);
      return { answer, sentAtMs, sentAtWallMs };
    } finally {
      cancel();
    }
  }

  /**
   * Repeats the request once, after a refused or broken connection or a 503, but never after a timeout.
   * @param beforeAttempt called right before each attempt is sent
   */
  async sendWithRetry(
    request: ServiceRequest,
    deadlineMs: number,
    beforeAttempt: () => void = () => undefined,
  ): Promise<TimedAnswer> {
    beforeAttempt();
    const first = await this.send(request, deadlineMs).catch((error: unknown) => {
      if (error instanceof ConnectionError) return undefined;
      throw error;
    });
    if (first && first.answer.status !== 503) return first;
    await pause(this.runtime, MIN_RETRY_PAUSE_MS + this.runtime.random() * RETRY_PAUSE_JITTER_MS);
    beforeAttempt();
    return this.send(request, deadlineMs);
  }
}
