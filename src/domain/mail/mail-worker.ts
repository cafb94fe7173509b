/**
 * E-mail: requests wait in the outbox (outbox.ts), and each replica's worker holds up to {@link MAX_SLOTS}
 * conversations. A recipient's domain has one slot at a time, and a mail waits while each network that asked for it has
 * one, so that slow ones delay only themselves. A mail is composed immediately before it is sent, so that its token
 * exists nowhere earlier. A conversation holds no connection and no lock of PostgreSQL, and HTTP requests never wait for
 * one. A mail is sent at least once: it leaves the outbox after the mail server accepted it.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Injectable, type OnModuleDestroy } from '@nestjs/common';
import { Counter } from 'prom-client';
import type { AuditEventName } from '../../foundation/common/security-events.js';
import { Environment } from '../../foundation/config/environment.js';
import { generateFraction } from '../../foundation/crypto/secret.js';
import { ComparedClock } from '../../foundation/database/compared-clock.js';
import { toErrorFields, Log } from '../../foundation/logging/log.js';
import { MetricsRegistry, PREFIX, cacheQuery } from '../../foundation/metrics/metrics-registry.js';
import { MailNotAcceptedError, MailTransport } from './mail-transport.js';
import { Outbox, type AccountRequest, type ClaimedMail, type ClaimedRequest, type MailRequest } from './outbox.js';
import { MAIL_KINDS, Templates, type TemplateValues } from './templates.js';

const POLL_INTERVAL_MS = 5_000;
/** Random delay before a new request is taken, so that its work does not show in the duration of the next response. */
const MAX_WAKE_DELAY_MS = 1_000;
const MAX_SLOTS = 6;
const FIRST_ATTEMPT_TIMEOUT_MS = 10_000;
const RETRY_TIMEOUT_MS = 60_000;
const MAX_SERVED_NETWORKS = 1_000;
const MAX_ATTEMPTS = 100;
const STOP_GRACE_MS = 2_000;

export interface ComposedMail {
  readonly userId: string;
  readonly to: string;
  readonly values: TemplateValues;
}

/** Decides which account gets a mail, and what it says: undefined when no account may get one. */
interface MailComposer {
  /** Finds the user of a request, and issues no token. */
  findUserId(request: MailRequest): Promise<string | undefined>;
  composeMail(request: MailRequest): Promise<ComposedMail | undefined>;
  /** Makes the account unless the address has one, and replaces the request by a mail. */
  createAccount(request: AccountRequest): Promise<void>;
}

/**
 * How many conversations a worker holds, and how many of them may be first attempts or retries: of several slots, neither
 * kind takes all. Composing a mail may wait for the lock of a user's row, so a pool of more than one connection keeps one
 * for HTTP requests.
 */
export function computeSlots(poolSize: number): { all: number; firstAttempts: number; retries: number } {
  const all = Math.max(1, Math.min(MAX_SLOTS, poolSize - 1));
  return { all, firstAttempts: Math.max(1, all - 1), retries: Math.max(1, Math.floor(all / 2)) };
}

/** `delayed`: the worker will retry. `failed`: the worker gave up. `dropped`: no account may get the mail. */
const OUTCOMES = ['sent', 'delayed', 'failed', 'dropped'] as const;

@Injectable()
export class MailWorker implements OnModuleDestroy {
  private readonly stopping = new AbortController();
  private readonly mails;
  private composer: MailComposer | undefined;
  private poll: NodeJS.Timeout | undefined;
  private wakeUp: NodeJS.Timeout | undefined;
  private readonly limits;
  private readonly slots = new Map<ClaimedRequest, Promise<void>>();
  private readonly served = new Set<string>();
  private filling: Promise<void> | undefined;
  private isFillDue = false;
  private isClosing = false;
  private hasFailed = false;

  constructor(
    private readonly outbox: Outbox,
    private readonly transport: MailTransport,
    private readonly templates: Templates,
    { databasePoolSize }: Environment,
    metrics: MetricsRegistry,
    private readonly clock: ComparedClock,
    private readonly log: Log,
  ) {
    this.limits = computeSlots(databasePoolSize);
    this.mails = new Counter({
      name: `${PREFIX}mails_total`,
      help: 'Attempts to send a mail, by their outcome.',
      labelNames: ['kind', 'outcome'],
      registers: [metrics.registry],
    });
    // Starts each series at 0: one that begins at 1 has no increase, so alerts would miss the first failure.
    for (const kind of MAIL_KINDS) for (const outcome of OUTCOMES) this.mails.inc({ kind, outcome }, 0);
    const waiting = cacheQuery(async () => (await outbox.measureBacklog()).waiting);
    metrics.addGauge('mails_waiting', 'Mails in the outbox, of all replicas.', waiting, 'max');
  }

  start(composer: MailComposer): void {
    this.composer = composer;
    this.poll = setInterval(() => void this.fillSlots(), POLL_INTERVAL_MS).unref();
    this.outbox.onAdded(() => {
      this.wakeUp ??= setTimeout(() => void this.fillSlots(), generateFraction() * MAX_WAKE_DELAY_MS).unref();
    });
  }

  /** Runs before the pool of the database closes. Unsent mails stay in the outbox. */
  async onModuleDestroy(): Promise<void> {
    this.isClosing = true;
    clearInterval(this.poll);
    clearTimeout(this.wakeUp);
    this.outbox.onAdded(() => undefined);
    await this.filling;
    const ended = Promise.all(this.slots.values());
    await Promise.race([ended, sleep(STOP_GRACE_MS, undefined, { ref: false })]);
    this.stopping.abort();
    await ended;
  }

  /** Sends all mails that are due, or become due meanwhile. Never rejects, because a failed mail is due again later. */
  async sendDueMails(): Promise<void> {
    await this.fillSlots();
    while (this.slots.size > 0) {
      await Promise.all(this.slots.values());
      await this.fillSlots();
    }
  }

  /** Single flight, and never rejects. */
  private fillSlots(): Promise<void> {
    clearTimeout(this.wakeUp);
    this.wakeUp = undefined;
    this.isFillDue = true;
    this.filling ??= this.claimWhileDue();
    return this.filling;
  }

  private async claimWhileDue(): Promise<void> {
    try {
      // While the clocks differ, mails wait: one that only looks too old would be given up.
      await this.clock.compareClocks();
      if (this.clock.isWrong) return;
      do {
        this.isFillDue = false;
        for (let request = await this.claimNext(); request; request = await this.claimNext()) this.openSlot(request);
      } while (this.isFillDue as boolean);
      this.hasFailed = false;
    } catch (error) {
      this.reportFailure(error);
    } finally {
      this.filling = undefined;
    }
  }

  private async claimNext(): Promise<ClaimedRequest | undefined> {
    const taken = [...this.slots.keys()];
    if (this.isClosing || taken.length >= this.limits.all) return undefined;
    const retries = taken.filter(({ attempts }) => attempts > 1).length;
    const request = await this.outbox.claimNextRequest({
      busyNetworks: taken.flatMap(({ networks }) => networks),
      busyDomains: taken.map(({ recipient }) => recipient.slice(recipient.lastIndexOf('@') + 1)),
      servedNetworks: [...this.served],
      mayTakeFirst: taken.length - retries < this.limits.firstAttempts,
      mayTakeRetry: retries < this.limits.retries,
    });
    if (request) this.noteServedNetworks(request.networks);
    return request;
  }

  /** Begins the next round when this one has served every network of the mail. */
  private noteServedNetworks(networks: readonly string[]): void {
    const isNextRound = networks.every((network) => this.served.has(network));
    if (isNextRound || this.served.size > MAX_SERVED_NETWORKS) this.served.clear();
    for (const network of networks) this.served.add(network);
  }

  private openSlot(request: ClaimedRequest): void {
    const conversation = this.settleRequest(request)
      // The row is due again when its claim expires.
      .catch((error: unknown) => this.reportFailure(error))
      .finally(() => {
        this.slots.delete(request);
        void this.fillSlots();
      });
    this.slots.set(request, conversation);
  }

  private reportFailure(error: unknown): void {
    if (!this.hasFailed) this.log.warn('outbox_job_failed', { error: toErrorFields(error) });
    this.hasFailed = true;
  }

  private async settleRequest(request: ClaimedRequest): Promise<void> {
    if (request.kind === 'registration') await this.composer?.createAccount(request);
    else await this.sendMail(request);
  }

  private async sendMail(request: ClaimedMail): Promise<void> {
    if (request.isExpired) return this.giveUpExpired(request);
    const mail = await this.composer?.composeMail(request);
    if (!mail) {
      await this.outbox.removeRequest(request);
      this.mails.inc({ kind: request.kind, outcome: 'dropped' });
      return;
    }
    try {
      const content = this.templates.renderMail(request.kind, mail.values);
      const limit = AbortSignal.timeout(request.attempts > 1 ? RETRY_TIMEOUT_MS : FIRST_ATTEMPT_TIMEOUT_MS);
      await this.transport.sendMail({ to: mail.to, ...content }, AbortSignal.any([this.stopping.signal, limit]));
    } catch (error) {
      await this.settleFailure(request, mail.userId, error);
      return;
    }
    await this.removeWithEvent('user.mail.sent', request, mail.userId);
    this.mails.inc({ kind: request.kind, outcome: 'sent' });
  }

  /** Audits the failure only if the address has an account, because each audit event has a subject. */
  private async giveUpExpired(request: ClaimedMail): Promise<void> {
    const userId = request.userId ?? (await this.composer?.findUserId(request));
    if (userId === undefined) await this.outbox.removeRequest(request);
    else await this.removeWithEvent('user.mail.failed', request, userId);
    this.log.warn('mail_expired', { reason: request.kind });
    this.mails.inc({ kind: request.kind, outcome: 'failed' });
  }

  private async settleFailure(request: ClaimedMail, userId: string, error: unknown): Promise<void> {
    const refusal = error instanceof MailNotAcceptedError ? error : undefined;
    if (this.stopping.signal.aborted) return this.outbox.releaseRequest(request);
    const isFinal = refusal?.isFinal === true || request.attempts >= MAX_ATTEMPTS;
    this.log.warn(isFinal ? 'mail_given_up' : 'mail_delayed', {
      reason: request.kind,
      user_id: userId,
      count: request.attempts,
      status: refusal?.status,
      error: toErrorFields(refusal?.cause ?? error),
    });
    if (isFinal) await this.removeWithEvent('user.mail.failed', request, userId);
    else await this.outbox.postponeRequest(request);
    this.mails.inc({ kind: request.kind, outcome: isFinal ? 'failed' : 'delayed' });
  }

  /** Removes a request, with an event that names the HTTP request that asked for the mail. */
  private async removeWithEvent(event: AuditEventName, request: ClaimedMail, userId: string): Promise<void> {
    const { kind, requestId, attempts } = request;
    await this.outbox.removeRequest(request, {
      event,
      actor: { door: 'service', id: null, requestId, address: null },
      time: this.clock.now(),
      subject: userId,
      details: { kind, attempts },
      logFields: { user_id: userId, reason: kind, count: attempts },
    });
  }
}
