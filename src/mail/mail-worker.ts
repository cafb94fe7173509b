/**
 * E-mail: requests wait in the outbox (outbox.ts), and a worker of any replica takes them, one mail each. The mail is
 * composed immediately before it is sent, so that its token exists nowhere earlier. During the conversation with the
 * mail server, no connection and no lock of PostgreSQL is held. A mail is sent at least once: it leaves the outbox after the mail
 * server has accepted it. HTTP requests never wait for any of this.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Injectable, type OnModuleDestroy } from '@nestjs/common';
import { Counter } from 'prom-client';
import { Clock } from '../common/clock.js';
import type { AuditEventName } from '../common/security-events.js';
import { generateFraction } from '../crypto/secret.js';
import { toErrorFields, Log } from '../logging/log.js';
import { MetricsRegistry, PREFIX, createSlowGauge } from '../metrics/metrics-registry.js';
import { MailNotAcceptedError, MailTransport } from './mail-transport.js';
import { Outbox, type ClaimedRequest, type MailRequest } from './outbox.js';
import { MAIL_KINDS, Templates, type TemplateValues } from './templates.js';

const POLL_INTERVAL_MS = 5_000;
/** A new request is taken at a random moment, so that the work on its mail does not show in the timing of the next response. */
const MAX_WAKE_DELAY_MS = 1_000;
/** Below the size of the pool: composing a mail may wait for the lock of a user's row. */
const BATCH_SIZE = 3;
const MAX_ATTEMPTS = 100;
const MIN_BACKOFF_MS = 15_000;
const MAX_BACKOFF_MS = 15 * 60_000;
/** How long a stop waits for the mails that are being sent. */
const STOP_GRACE_MS = 2_000;

export interface ComposedMail {
  readonly userId: string;
  readonly to: string;
  readonly values: TemplateValues;
}

/** Decides which account gets a mail, and what it says. Both functions return undefined when no account may get it. */
export interface MailComposer {
  /** The user whom the request is about. Makes no token. */
  findUserId(request: MailRequest): Promise<string | undefined>;
  composeMail(request: MailRequest): Promise<ComposedMail | undefined>;
}

/** `delayed`: it will be tried again. `failed`: it was given up. `dropped`: no account may get it. */
const OUTCOMES = ['sent', 'delayed', 'failed', 'dropped'] as const;

@Injectable()
export class MailWorker implements OnModuleDestroy {
  private readonly stopping = new AbortController();
  private readonly mails;
  private composer: MailComposer | undefined;
  private poll: NodeJS.Timeout | undefined;
  private wakeUp: NodeJS.Timeout | undefined;
  private running: Promise<void> | undefined;
  private hasFailed = false;

  constructor(
    private readonly outbox: Outbox,
    private readonly transport: MailTransport,
    private readonly templates: Templates,
    metrics: MetricsRegistry,
    private readonly clock: Clock,
    private readonly log: Log,
  ) {
    this.mails = new Counter({
      name: `${PREFIX}mails_total`,
      help: 'Attempts to send a mail, by their outcome.',
      labelNames: ['kind', 'outcome'],
      registers: [metrics.registry],
    });
    // A series that begins at 1 has no increase: alerts would miss the first failure.
    for (const kind of MAIL_KINDS) for (const outcome of OUTCOMES) this.mails.inc({ kind, outcome }, 0);
    const waiting = createSlowGauge(() => outbox.countWaiting());
    metrics.addGauge('mails_waiting', 'Mails in the outbox, of all replicas.', waiting, 'max');
  }

  start(composer: MailComposer): void {
    this.composer = composer;
    this.poll = setInterval(() => void this.sendDueMails(), POLL_INTERVAL_MS).unref();
    this.outbox.onAdded(() => {
      this.wakeUp ??= setTimeout(() => void this.sendDueMails(), generateFraction() * MAX_WAKE_DELAY_MS).unref();
    });
  }

  /** Before the pool of the database closes. What was not sent stays in the outbox. */
  async onModuleDestroy(): Promise<void> {
    clearInterval(this.poll);
    clearTimeout(this.wakeUp);
    this.outbox.onAdded(() => undefined);
    if (this.running) await Promise.race([this.running, sleep(STOP_GRACE_MS, undefined, { ref: false })]);
    this.stopping.abort();
    await this.running;
  }

  /** Single flight, and never rejects: what failed is due again later. */
  sendDueMails(): Promise<void> {
    clearTimeout(this.wakeUp);
    this.wakeUp = undefined;
    this.running ??= this.workOffOutbox().finally(() => (this.running = undefined));
    return this.running;
  }

  private async workOffOutbox(): Promise<void> {
    try {
      for (let taken = BATCH_SIZE; taken === BATCH_SIZE && !this.stopping.signal.aborted;) {
        const requests = await this.outbox.claimDue(BATCH_SIZE);
        taken = requests.length;
        const results = await Promise.allSettled(requests.map((request) => this.sendMail(request)));
        for (const result of results) if (result.status === 'rejected') throw result.reason;
      }
      this.hasFailed = false;
    } catch (error) {
      // The claimed rows are due again when their claim expires.
      if (!this.hasFailed) this.log.warn('outbox_job_failed', { error: toErrorFields(error) });
      this.hasFailed = true;
    }
  }

  private async sendMail(request: ClaimedRequest): Promise<void> {
    if (request.isExpired) return this.giveUpExpired(request);
    const mail = await this.composer?.composeMail(request);
    if (!mail) {
      await this.outbox.remove(request);
      this.mails.inc({ kind: request.kind, outcome: 'dropped' });
      return;
    }
    try {
      const content = this.templates.render(request.kind, mail.values);
      await this.transport.send({ to: mail.to, ...content }, this.stopping.signal);
    } catch (error) {
      await this.settleFailure(request, mail.userId, error);
      return;
    }
    await this.removeWithEvent('user.mail.sent', request, mail.userId);
    this.mails.inc({ kind: request.kind, outcome: 'sent' });
  }

  /** The audit log gets an outcome only if the address has an account: each of its events has a subject. */
  private async giveUpExpired(request: ClaimedRequest): Promise<void> {
    const userId = request.userId ?? (await this.composer?.findUserId(request));
    if (userId === undefined) await this.outbox.remove(request);
    else await this.removeWithEvent('user.mail.failed', request, userId);
    this.log.warn('mail_expired', { reason: request.kind });
    this.mails.inc({ kind: request.kind, outcome: 'failed' });
  }

  private async settleFailure(request: ClaimedRequest, userId: string, error: unknown): Promise<void> {
    const refusal = error instanceof MailNotAcceptedError ? error : undefined;
    if (this.stopping.signal.aborted) {
      await this.outbox.postpone(request, 0);
      return;
    }
    const isFinal = refusal?.isFinal === true || request.attempts >= MAX_ATTEMPTS;
    this.log.warn(isFinal ? 'mail_given_up' : 'mail_delayed', {
      reason: request.kind,
      user_id: userId,
      count: request.attempts,
      status: refusal?.status,
      error: toErrorFields(refusal?.cause ?? error),
    });
    if (isFinal) await this.removeWithEvent('user.mail.failed', request, userId);
    else await this.outbox.postpone(request, computeBackoffMs(request.attempts));
    this.mails.inc({ kind: request.kind, outcome: isFinal ? 'failed' : 'delayed' });
  }

  /** The event names the request that asked for the mail. */
  private async removeWithEvent(event: AuditEventName, request: ClaimedRequest, userId: string): Promise<void> {
    const { kind, requestId, attempts } = request;
    await this.outbox.remove(request, {
      event,
      actor: { door: 'service', id: null, requestId, address: null },
      time: this.clock.now(),
      subject: userId,
      details: { kind, attempts },
      logFields: { user_id: userId, reason: kind, count: attempts },
    });
  }
}

/** Exponential, with jitter: half of the delay is random. */
function computeBackoffMs(attempts: number): number {
  const delay = Math.min(MAX_BACKOFF_MS, MIN_BACKOFF_MS * 2 ** Math.min(attempts - 1, 20));
  return delay * (0.5 + generateFraction() / 2);
}
