import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { mayStillHappen, now, send, type Answer, type Request } from './client.js';
import type { Kept, Key, Ledger, Life } from './ledger.js';
import { pickOne } from './random.js';
import { LoadRecord, type Route } from './record.js';
import type { VerifierQuestion } from './verifiers/protocol.js';
import type { VerifierProcess } from './verifiers/verifier-process.js';

/** Runs its script once, and records what was acknowledged. */
export type Actor = (load: Load) => Promise<unknown>;

const THINK_TIME_MS = 20;
const RETRY_INTERVAL_MS = 100;
const IDLE_POLL_INTERVAL_MS = 10;
const START_INTERVAL_MS = 10;
/** The longest that the load waits without a right answer, far more than the bound of any fault. */
const MAX_SILENCE_MS = 120_000;
const OPERATOR = '10.0.0.1';
/** More than one, because a busy machine may be slower than the timeout of the load. */
const MAX_PREPARATIONS = 5;
/** 403 is a verdict: the key is valid but lacks the scope. */
const VERDICTS: readonly Answer['status'][] = [200, 401, 403];

const problem = z.object({ code: z.string() });

class LoadGivenUpError extends Error {
  override readonly name = 'LoadGivenUpError';

  constructor() {
    super(`No request got a right answer for ${MAX_SILENCE_MS / 1_000} s, so the load ended: are the replicas alive?`);
  }
}

export interface LoadRequest extends Request {
  /** The client's address; by default the operator's. */
  readonly from?: string | undefined;
}

interface Targets {
  readonly balancer: string | undefined;
  readonly replicas: readonly string[];
}

export interface LoadOptions {
  readonly timeoutMs?: number;
  /** Sends all requests through the balancer, and none to a replica directly. */
  readonly onlyBalancer?: boolean;
  /** Whether it sometimes sends a refresh to every replica at once, as by default. */
  readonly repeatsRefreshes?: boolean;
}

export interface LoadSetting {
  readonly ledger: Ledger;
  readonly targets: () => Targets;
  readonly adminKey: string;
  readonly verifiers: readonly VerifierProcess[];
}

/** Runs the actors, which call every hot route: each repeats its script and records what was acknowledged. */
export class Load {
  isOver = false;
  /** Set while the database is read-only, because the first use of a new key cannot end the old one then. */
  writesAreRefused = false;
  record: LoadRecord;
  /** Made before the fault. */
  kept: Kept = { credentials: [], sessions: [], memberships: [] };
  readonly repeatsRefreshes: boolean;
  private running: readonly Promise<void>[] = [];
  private resumed: Promise<void> | undefined;
  private resume = (): void => undefined;
  private idle = 0;
  private hasGivenUp = false;

  constructor(
    private readonly setting: LoadSetting,
    private readonly options: LoadOptions,
  ) {
    this.repeatsRefreshes = options.repeatsRefreshes ?? true;
    this.record = this.createRecord();
  }

  /** Lets each actor repeat its script until the load stops, and forgets earlier records. */
  begin(actors: readonly Actor[]): void {
    this.record = this.createRecord();
    this.running = actors.map((act, index) => this.repeat(act, index));
  }

  get ledger(): Ledger {
    return this.setting.ledger;
  }

  get verifiers(): readonly VerifierProcess[] {
    return this.setting.verifiers;
  }

  /**
   * Resolves when every actor has finished its script.
   * @returns a function that lets them continue
   * @throws {LoadGivenUpError}
   */
  async pause(): Promise<() => void> {
    this.resumed = new Promise((resolve) => {
      this.resume = () => {
        this.resumed = undefined;
        resolve();
      };
    });
    const startedAt = now();
    while (this.idle < this.running.length) {
      this.giveUpAfterSilence(startedAt);
      if (this.hasGivenUp) throw new LoadGivenUpError();
      await sleep(IDLE_POLL_INTERVAL_MS);
    }
    return this.resume;
  }

  /** @throws {LoadGivenUpError} */
  async stop(): Promise<void> {
    this.isOver = true;
    // A scenario that failed during a pause does not end the pause.
    this.resume();
    await Promise.all(this.running);
    this.record.end();
    if (this.hasGivenUp) throw new LoadGivenUpError();
  }

  think(ms = THINK_TIME_MS): Promise<void> {
    return sleep(ms * (0.5 + Math.random()));
  }

  /** Sends a request: half of the time through the balancer, otherwise to a random replica. */
  async ask({ from = OPERATOR, ...request }: LoadRequest, base = this.chooseTarget()): Promise<Answer> {
    const headers = { ...request.headers, 'X-Forwarded-For': from };
    const answer = await send(base, { timeoutMs: this.options.timeoutMs, ...request, headers });
    this.record.addAnswer(request, answer);
    return answer;
  }

  /** Sends a request to every replica at the same time. */
  askEverywhere(request: LoadRequest): Promise<Answer[]> {
    const { replicas, balancer } = this.setting.targets();
    const bases = this.options.onlyBalancer && balancer !== undefined ? [balancer, balancer] : replicas;
    return Promise.all(bases.map((base) => this.ask(request, base)));
  }

  askAsAdmin(method: string, path: string, body?: object, base?: string): Promise<Answer> {
    const headers = { 'X-Admin-Key': this.setting.adminKey };
    return this.ask({ method, path: `/api/v0/admin${path}`, body, headers }, base);
  }

  /** A repeatable deletion: 404 acknowledges it too, because an attempt without a response may have done it. */
  async deleteAsAdmin(path: string): Promise<Answer> {
    const answer = await this.askAsAdmin('DELETE', path);
    return answer.status === 404 ? { ...answer, status: 204 } : answer;
  }

  /**
   * Judges a response by the life of its credential.
   * @param what names the credential in reports
   * @returns true when it was accepted, false when it was refused, undefined without a verdict
   */
  judge(route: Route, what: string, life: Life, answer: Answer): boolean | undefined {
    if (!VERDICTS.includes(answer.status)) {
      this.addNoVerdict(route, what, answer);
      return undefined;
    }
    return this.compare(route, what, answer, life.findObjection(answer.status === 200, answer));
  }

  /** Judges the verdict of a verifier, as {@link judge} does. Whether a 503 is allowed depends on its time. */
  judgeVerifier(
    { name }: VerifierProcess,
    door: VerifierQuestion['door'],
    { name: what, life }: Pick<Key, 'name' | 'life'>,
    answer: Answer,
  ): boolean | undefined {
    const route = `${name} ${door}` as const;
    this.record.addAnswer({ method: 'verifier', path: route }, answer);
    if (answer.status === 503) {
      this.record.addUnavailable(route, answer);
      return undefined;
    }
    if (!VERDICTS.includes(answer.status)) {
      this.record.addWrongVerdict(`${route} of ${what}: ${answer.status} ${JSON.stringify(answer.body)}`);
      return undefined;
    }
    return this.compare(route, what, answer, life.findObjection(answer.status === 200, answer, true));
  }

  /** @returns whether it was acknowledged */
  acknowledge(route: Route, what: string, answer: Answer, expected: number): boolean {
    if (answer.status === expected) this.record.addRight(route, answer);
    else this.addNoVerdict(route, what, answer);
    return answer.status === expected;
  }

  /**
   * Retries an idempotent request until it is acknowledged.
   * @returns false when the load ended before
   */
  async insist(route: Route, what: string, attempt: () => Promise<Answer>, expected: number): Promise<boolean> {
    const startedAt = now();
    while (!this.isOver) {
      if (this.acknowledge(route, what, await attempt(), expected)) return true;
      this.giveUpAfterSilence(startedAt);
      await sleep(RETRY_INTERVAL_MS);
    }
    return false;
  }

  /**
   * Makes something before the fault.
   * @param make returns undefined when it was not acknowledged
   * @throws when no attempt was acknowledged
   */
  async prepare<Made>(what: string, make: () => Promise<Made | undefined>): Promise<Made> {
    for (let attempt = 0; attempt < MAX_PREPARATIONS; attempt += 1) {
      const made = await make();
      if (made !== undefined) return made;
    }
    throw new Error(`${what} was not acknowledged`);
  }

  /**
   * Records whether a verdict agrees with the ledger.
   * @returns whether the credential was accepted
   */
  private compare(route: Route, what: string, answer: Answer, objection: string | undefined): boolean {
    if (objection === undefined) this.record.addRight(route, answer);
    else this.record.addWrongVerdict(`${route} of ${what}: ${objection}`);
    return answer.status === 200;
  }

  /** Ends the load when a wait has lasted too long, because no replica may be alive any more. */
  private giveUpAfterSilence(waitsSince: number): void {
    if (now() - Math.max(waitsSince, this.record.lastRightAt) < MAX_SILENCE_MS) return;
    this.hasGivenUp = true;
    this.isOver = true;
  }

  private createRecord(): LoadRecord {
    return new LoadRecord(this.verifiers.map(({ name }) => name));
  }

  /** 503, 429 and a lost connection are not verdicts; any other status is wrong. */
  private addNoVerdict(route: Route, what: string, answer: Answer): void {
    if (answer.status === 503 || answer.status === 429 || mayStillHappen(answer)) {
      this.record.addError(route, answer);
    } else {
      const { code } = problem.safeParse(answer.body).data ?? { code: '' };
      this.record.addWrongVerdict(`${route} of ${what}: answered ${answer.status} ${code}`);
    }
  }

  private chooseTarget(): string {
    const { balancer, replicas } = this.setting.targets();
    if (balancer !== undefined && (this.options.onlyBalancer || Math.random() < 0.5)) return balancer;
    return pickOne(replicas);
  }

  private async repeat(act: Actor, index: number): Promise<void> {
    await sleep(index * START_INTERVAL_MS);
    while (!this.isOver) {
      await act(this);
      await this.think();
      this.idle += 1;
      await this.resumed;
      this.idle -= 1;
    }
  }
}
