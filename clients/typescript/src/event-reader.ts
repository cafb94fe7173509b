/**
 * Reads what happened (`POST /internal/events`), each event at least once. Terms: cursor, reset (events may have been
 * missed), acknowledged (the next one was asked for). Invariant: a cursor is sent only when its event, or the comparison
 * after its reset, is done; so what fails comes again.
 */
import { randomUUID } from 'node:crypto';
import { describeAnswer, isUnavailable, parseObject } from './answers.js';
import type { Checks } from './checks.js';
import { VerifierConfigurationError } from './errors.js';
import type { Settings } from './options.js';
import type { EventsOptions, PlatformEvent } from './platform-event.js';
import type { Runtime } from './runtime.js';
import type { ServiceClient } from './service-client.js';
import type { ServiceAnswer } from './transport.js';

const PATH = '/internal/events';
/** An answer with as many events stays far below the size that the transport accepts. */
const BATCH_SIZE = 250;
const WAIT_SECONDS = 20;
/** Longer than the wait. No lease depends on the answer. */
const ATTEMPT_TIMEOUT_MS = 30_000;
/** The service hands the subscription to another process 30 s after the last poll. */
const MAX_POLL_AGE_MS = 10_000;
const MIN_PAUSE_MS = 1_000;
const MAX_PAUSE_MS = 60_000;
const JITTER = 0.2;

/** An event, or a reset, which has none. */
interface Item {
  readonly cursor: string;
  readonly event?: PlatformEvent;
}

interface Batch {
  readonly items: readonly Item[];
  readonly hasMore: boolean;
}

export class EventReader {
  /** The next iterator of this process goes on at once, because it reads under the same name. */
  private readonly consumer = randomUUID();
  private iterators = 0;
  private after: string | undefined;
  private items: readonly Item[] = [];
  private polledAtMs = -Infinity;
  /** Whether an item was handed out and is not acknowledged. */
  private isPending = false;
  private failures = 0;
  private unansweredPolls = 0;
  private isClosed = false;
  private readonly wakers = new Set<() => void>();

  constructor(
    private readonly settings: Settings,
    private readonly runtime: Runtime,
    private readonly client: ServiceClient,
    private readonly checks: Checks,
  ) {}

  read({ onReset }: EventsOptions): AsyncGenerator<PlatformEvent, void, undefined> {
    // Types do not bind callers in JavaScript.
    if (typeof (onReset as unknown) !== 'function')
      throw new VerifierConfigurationError('onReset must be a function: it compares users after a reset');
    return this.iterate(onReset);
  }

  close(): void {
    this.isClosed = true;
    for (const wake of this.wakers) wake();
  }

  private async *iterate(onReset: EventsOptions['onReset']): AsyncGenerator<PlatformEvent, void, undefined> {
    this.iterators += 1;
    const iterator = this.iterators;
    await this.pauseAfterFailure();
    for (let item = await this.take(iterator); item; item = await this.take(iterator)) {
      this.isPending = true;
      if (item.event) yield item.event;
      else await onReset();
      this.expectLatest(iterator);
      this.isPending = false;
      this.failures = 0;
      this.after = item.cursor;
    }
  }

  /** What the last iterator was handed and did not acknowledge comes again, but not at once. */
  private async pauseAfterFailure(): Promise<void> {
    if (!this.isPending) return;
    this.isPending = false;
    this.items = [];
    this.failures += 1;
    await this.pause(computePauseMs(this.failures));
  }

  private expectLatest(iterator: number): void {
    if (iterator !== this.iterators) throw new Error('A later iterator of this verifier reads the events');
  }

  /** @returns undefined when the verifier is closed */
  private async take(iterator: number): Promise<Item | undefined> {
    while (!this.isClosed) {
      this.expectLatest(iterator);
      const isHeld = this.runtime.clocks.monotonic() < this.polledAtMs + MAX_POLL_AGE_MS;
      const [item, ...others] = this.items;
      if (item && isHeld) {
        this.items = others;
        return item;
      }
      await this.poll(iterator);
    }
    return undefined;
  }

  private async poll(iterator: number): Promise<void> {
    const sentAtMs = this.runtime.clocks.monotonic();
    const answer = await this.ask().catch(() => undefined);
    if (this.isClosed) return;
    // What an earlier iterator asked for is not the later one's.
    this.expectLatest(iterator);
    const code = answer && parseObject(answer.body)?.code;
    if (answer?.status === 403 && code === 'not_subscribed') throw this.createNotSubscribed();
    if (answer?.status === 409 && code === 'events_busy') return this.standBy(answer);
    const batch = answer?.status === 200 ? readBatch(answer) : undefined;
    if (!batch) return this.backOff(answer);
    if (this.unansweredPolls > 0)
      this.settings.logger.warn('verifier_events_answered_again', { failures: this.unansweredPolls });
    this.unansweredPolls = 0;
    this.checks.misconfigurations.clear(PATH);
    this.items = batch.items;
    this.polledAtMs = this.runtime.clocks.monotonic();
    // The service answers a poll early when it stops, or when the process sends another.
    const isEarly = this.polledAtMs - sentAtMs < MIN_PAUSE_MS;
    if (isEarly && batch.items.length === 0 && !batch.hasMore) await this.pause(MIN_PAUSE_MS);
  }

  private async ask(): Promise<ServiceAnswer | undefined> {
    const { settings, client, after, consumer } = this;
    // With the key of another service these would be the events of another service.
    if (this.checks.serviceName.isWrong) return undefined;
    const { answer } = await client.send({
      method: 'POST',
      url: settings.url + PATH,
      headers: { 'Content-Type': 'application/json' },
      presentsOwnKey: true,
      body: JSON.stringify({ after, consumer, limit: BATCH_SIZE, wait_seconds: WAIT_SECONDS }),
      timeoutMs: ATTEMPT_TIMEOUT_MS,
    });
    return answer;
  }

  /** Another process of this service reads, from the stored position on. */
  private async standBy({ headers }: ServiceAnswer): Promise<void> {
    this.after = undefined;
    this.items = [];
    await this.pause(Math.max(MIN_PAUSE_MS, readRetryAfterMs(headers['retry-after'])));
  }

  private async backOff(answer: ServiceAnswer | undefined): Promise<void> {
    if (answer && !isUnavailable(answer.status)) this.checks.misconfigurations.report(PATH, describeAnswer(answer));
    if (this.unansweredPolls === 0) {
      const reason = answer ? `status ${answer.status}` : 'no answer';
      this.settings.logger.warn('verifier_events_not_answered', { url: this.settings.url, reason });
    }
    this.unansweredPolls += 1;
    const pauseMs = computePauseMs(this.unansweredPolls) * (1 - JITTER * this.runtime.random());
    await this.pause(Math.max(pauseMs, readRetryAfterMs(answer?.headers['retry-after'])));
  }

  private createNotSubscribed(): VerifierConfigurationError {
    const { serviceName } = this.settings;
    return new VerifierConfigurationError(
      `${serviceName} has no subscription to events. Name the types that it reads in the map of the platform, ` +
        `${serviceName}: { events: [user.deleted] }, and run platform-auth apply`,
    );
  }

  /** Ends early when the verifier is closed. */
  private pause(ms: number): Promise<void> {
    if (this.isClosed) return Promise.resolve();
    return new Promise((resolve) => {
      const wake = (): void => {
        cancel();
        this.wakers.delete(wake);
        resolve();
      };
      const cancel = this.runtime.schedule(wake, ms, false);
      this.wakers.add(wake);
    });
  }
}

/** 1 s, doubling to 60 s. */
function computePauseMs(failures: number): number {
  return Math.min(MAX_PAUSE_MS, MIN_PAUSE_MS * 2 ** Math.min(failures - 1, 10));
}

function readRetryAfterMs(text: string | undefined): number {
  return text !== undefined && /^\d{1,9}$/.test(text) ? Math.min(MAX_PAUSE_MS, Number(text) * 1_000) : 0;
}

/** @returns undefined when this is not an answer with events */
function readBatch({ body }: ServiceAnswer): Batch | undefined {
  const { events, more, reset, cursor } = parseObject(body) ?? {};
  if (reset === true) return typeof cursor === 'string' ? { items: [{ cursor }], hasMore: false } : undefined;
  if (reset !== false || typeof more !== 'boolean' || !Array.isArray(events)) return undefined;
  const items = events.map(toItem);
  return items.every((item) => item !== undefined) ? { items, hasMore: more } : undefined;
}

function toItem(value: unknown): Item | undefined {
  if (!isObject(value) || !isObject(value.subject) || !isObject(value.data)) return undefined;
  const { id, type, time, subject, data, cursor } = value;
  if (typeof id !== 'string' || typeof type !== 'string' || typeof cursor !== 'string') return undefined;
  if (typeof time !== 'string' || Number.isNaN(Date.parse(time))) return undefined;
  if (typeof subject.kind !== 'string' || typeof subject.id !== 'string') return undefined;
  return { cursor, event: { id, type, time: new Date(time), subject: { kind: subject.kind, id: subject.id }, data } };
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
