import type { RevocationLease, Ticket } from '../../../packages/lease/src/lease.js';
import { judge, type Judgement } from './answers.js';
import type { Checks } from './checks.js';
import { toFingerprint, type Credential } from './credentials.js';
import { DelegationNotAcceptedError, RefusedError, UnavailableError } from './errors.js';
import type { AnyUserPrincipal, Door, Principal } from './principals.js';
import type { Settings } from './options.js';
import { QuestionSlots } from './question-slots.js';
import { REFUSALS } from './refusals.js';
import type { Runtime } from './runtime.js';
import type { ServiceClient, TimedAnswer } from './service-client.js';
import type { Term } from './token-cache.js';
import type { TokenVerdict } from './token-check.js';
import { ConnectionError, TimeoutError, type ServiceRequest } from './transport.js';

const VERDICT_TIMEOUT_MS = 3_000;

/** Whom a credential identifies. */
export type Identified = Principal | AnyUserPrincipal;

/** A question to the service about one credential. */
export interface Question<Identity extends Identified> {
  readonly credential: Credential;
  /** Whether it is about a delegated token at a route that does not accept one: the local check decides, if it can. */
  readonly isDelegationRefused?: boolean;
  /** The network of the caller (client-network.ts). */
  readonly network: string;
  /** The path, which is the cause in a configuration error. */
  readonly path: string;
  readonly request: ServiceRequest;
  /** May decide before the service is asked. */
  readonly check?: (deadlineMs: number) => Promise<TokenVerdict>;
  /** @returns undefined when the answer is about another credential */
  readonly read: (body: Readonly<Record<string, unknown>>) => Identity | undefined;
  remember(identity: Identity, term: Term, ticket: Ticket): void;
  /** Called when the credential is refused, before a poll reports it. Another key of the same id stays remembered. */
  readonly forget: () => void;
}

/** The answer, for every request that waited for it. */
type Outcome =
  | {
      readonly kind: 'yes';
      readonly identity: Identified;
      readonly usableUntilMs: number;
      readonly usableUntilWallMs: number;
    }
  | { readonly kind: 'no' }
  | { readonly kind: 'delegated' }
  | { readonly kind: 'unknown' };

const UNKNOWN: Outcome = { kind: 'unknown' };
const DELEGATED: Outcome = { kind: 'delegated' };

/** Asks the service: single flight for each credential, and a bound on the questions of each door. */
export class Questions {
  private readonly inFlight = new Map<string, Promise<Outcome>>();
  private readonly slots: Readonly<Record<Door, QuestionSlots>>;
  /**
   * The credentials that the service accepted last at each door. A reset keeps them, so that known callers go on to
   * take precedence.
   */
  private readonly valid: Readonly<Record<Door, Set<string>>> = { app: new Set(), node: new Set(), user: new Set() };
  private readonly maxValid: number;
  /** Callers that the service accepted with the key before the last rotation. */
  private readonly ofPreviousKeys = new WeakSet<Identified>();

  /** @param onRemember called when the service allows a yes to be remembered */
  constructor(
    { maxQuestions, maxEntries }: Settings,
    private readonly runtime: Runtime,
    private readonly client: ServiceClient,
    private readonly lease: RevocationLease,
    private readonly checks: Checks,
    private readonly onRemember: () => void,
  ) {
    const createSlots = (): QuestionSlots => new QuestionSlots(maxQuestions, runtime);
    this.maxValid = maxEntries;
    this.slots = { app: createSlots(), node: createSlots(), user: createSlots() };
  }

  /**
   * @param isAboutChange only the answer to a question that is sent from now on counts
   * @throws {RefusedError} {UnavailableError} also at once, beyond the bound
   */
  async ask<Identity extends Identified>(question: Question<Identity>, isAboutChange = false): Promise<Identity> {
    const { outcome, isJoined } = await this.joinOrStart(question);
    // A refusal from before this request arrived is outdated, because the credential may have become valid since.
    const isOutdated = isJoined && (outcome.kind === 'no' || isAboutChange);
    const newest = isOutdated ? (await this.joinOrStart(question)).outcome : outcome;
    return this.conclude(question, newest);
  }

  isOfPreviousKey(identity: Identified): boolean {
    return this.ofPreviousKeys.has(identity);
  }

  private conclude<Identity extends Identified>(question: Question<Identity>, outcome: Outcome): Identity {
    if (outcome.kind === 'no') throw new RefusedError(REFUSALS[question.credential.door]);
    if (outcome.kind === 'delegated') throw new DelegationNotAcceptedError();
    // Checked again for each request that waited, because the process may have been paused since the answer arrived.
    if (outcome.kind === 'unknown' || !this.isUsable(outcome)) throw new UnavailableError();
    return outcome.identity as Identity;
  }

  private async joinOrStart<Identity extends Identified>(question: Question<Identity>) {
    const { inFlight } = this;
    const fingerprint = toFingerprint(question.credential);
    // Such a question is another one: its answer is no answer to a route that accepts the token.
    const name = question.isDelegationRefused ? `${fingerprint} refused` : fingerprint;
    const joined = inFlight.get(name);
    if (joined) return { outcome: await joined, isJoined: true };
    const answered = this.waitAndDecide(question, this.valid[question.credential.door].has(fingerprint))
      .catch((error: unknown) => this.toUnknown(error, question.credential))
      .finally(() => inFlight.delete(name));
    inFlight.set(name, answered);
    return { outcome: await answered, isJoined: false };
  }

  private toUnknown(error: unknown, { toHeaders }: Credential): Outcome {
    if (!(error instanceof ConnectionError || error instanceof TimeoutError))
      this.checks.unexpectedErrors.report(error, Object.values(toHeaders()));
    return UNKNOWN;
  }

  private async waitAndDecide<Identity extends Identified>(
    question: Question<Identity>,
    wasValid: boolean,
  ): Promise<Outcome> {
    const deadlineMs = this.runtime.clocks.monotonic() + VERDICT_TIMEOUT_MS;
    const slots = this.slots[question.credential.door];
    const turn = { wasValid, network: question.network };
    if (!(await slots.enter(turn))) return UNKNOWN;
    return this.decide(question, deadlineMs).finally(() => slots.leave(turn));
  }

  private async decide<Identity extends Identified>(
    question: Question<Identity>,
    deadlineMs: number,
  ): Promise<Outcome> {
    if (this.checks.serviceName.isWrong) return UNKNOWN;
    const { tokenSettings } = this.checks;
    const verdict = (await question.check?.(deadlineMs)) ?? 'unknown';
    if (verdict === 'bad') return this.answerNoAtOnce(question);
    if (question.isDelegationRefused && verdict !== 'unknown')
      return verdict === 'good' ? DELEGATED : this.answerNoAtOnce(question);
    if (verdict === 'good' || verdict === 'unknown') {
      const outcome = await this.send(question, deadlineMs);
      if (verdict === 'good' && outcome.kind === 'yes') tokenSettings.confirm();
      return outcome;
    }
    const ask = async (): Promise<boolean | undefined> => {
      const { kind } = await this.send({ ...question, remember: () => undefined }, deadlineMs).catch((error: unknown) =>
        this.toUnknown(error, question.credential),
      );
      return kind === 'unknown' ? undefined : kind === 'yes';
    };
    return (await tokenSettings.isForged(verdict, ask)) ? this.answerNoAtOnce(question) : UNKNOWN;
  }

  private async send<Identity extends Identified>(question: Question<Identity>, deadlineMs: number): Promise<Outcome> {
    let ticket = this.lease.takeTicket();
    const takeTicket = (): void => void (ticket = this.lease.takeTicket());
    const timed = await this.client.sendWithRetry(question.request, deadlineMs, takeTicket);
    const judgement = judge(question.credential.door, timed.answer);
    if (judgement.verdict === 'yes') return this.accept(question, judgement, timed, ticket);
    if (judgement.verdict === 'misconfigured') this.checks.misconfigurations.report(question.path, judgement.detail);
    return judgement.verdict === 'no' ? this.answerNo(question, deadlineMs) : UNKNOWN;
  }

  private async answerNo<Identity extends Identified>(
    question: Question<Identity>,
    deadlineMs: number,
  ): Promise<Outcome> {
    const { credential, path } = question;
    const { misconfigurations, serviceName } = this.checks;
    misconfigurations.clear(path);
    // The verdict on a token does not depend on the name of this service.
    if (credential.door !== 'user') await serviceName.waitUntilCompared(deadlineMs);
    return serviceName.isWrong ? UNKNOWN : this.answerNoAtOnce(question);
  }

  private answerNoAtOnce<Identity extends Identified>({ credential, forget }: Question<Identity>): Outcome {
    this.valid[credential.door].delete(toFingerprint(credential));
    // Done even for an unknown fingerprint: the cache may hold a credential that newer ones have displaced from the
    // set.
    forget();
    return { kind: 'no' };
  }

  /** Synchronous, so that no poll is answered between the check of the ticket and the write to the cache (TOCTOU). */
  private accept<Identity extends Identified>(
    question: Question<Identity>,
    { body, freshForMs, rememberForMs, isPreviousKey }: Extract<Judgement, { verdict: 'yes' }>,
    { sentAtMs, sentAtWallMs }: TimedAnswer,
    ticket: Ticket,
  ): Outcome {
    const identity = question.read(body);
    if (!identity) {
      this.checks.misconfigurations.report(question.path, 'the answer is about something else');
      return UNKNOWN;
    }
    this.checks.misconfigurations.clear(question.path);
    if (isPreviousKey) this.ofPreviousKeys.add(identity);
    const usableUntilMs = sentAtMs + freshForMs;
    const usableUntilWallMs = sentAtWallMs + freshForMs;
    const outcome = { kind: 'yes', identity, usableUntilMs, usableUntilWallMs } as const;
    if (this.checks.serviceName.isWrong || !this.isUsable(outcome)) return UNKNOWN;
    this.addValid(question.credential);
    if (rememberForMs > 0) {
      question.remember(identity, { maxAgeMs: rememberForMs, endsAtWallMs: sentAtWallMs + rememberForMs }, ticket);
      this.onRemember();
    }
    return outcome;
  }

  private addValid(credential: Credential): void {
    const valid = this.valid[credential.door];
    const fingerprint = toFingerprint(credential);
    // Inserted again, so that the most recent one is last.
    valid.delete(fingerprint);
    valid.add(fingerprint);
    const [oldest] = valid;
    if (valid.size > this.maxValid && oldest !== undefined) valid.delete(oldest);
  }

  private isUsable({ usableUntilMs, usableUntilWallMs }: Extract<Outcome, { kind: 'yes' }>): boolean {
    const { clocks } = this.runtime;
    return clocks.monotonic() < usableUntilMs && clocks.wall() < usableUntilWallMs;
  }
}
