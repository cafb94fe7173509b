import { randomInt } from 'node:crypto';
import { ask, mayStillHappen, sleep } from './client.js';
import { keyLife } from './actors/key-life.js';
import { kinds } from './actors/key-kinds.js';
import { userLife } from './actors/user-life.js';
import * as watchers from './actors/watchers.js';

const ACTORS = [
  ...Array(3).fill((load) => keyLife(load, kinds.node)),
  ...Array(3).fill((load) => keyLife(load, kinds.app)),
  ...Array(6).fill(userLife),
  ...Array(2).fill(watchers.watchKeys),
  ...Array(2).fill(watchers.watchSessions),
  ...Array(2).fill(watchers.watchLogins),
  watchers.watchRevoked,
];
const THINK_TIME_MS = 20;
const RETRY_INTERVAL_MS = 100;
const OPERATOR = '10.0.0.1';

/** Runs the actors: callers of every hot route, each of which repeats its script and records what was acknowledged. */
export class Load {
  isOver = false;
  /** Set while the database is read-only: the first use of a new key cannot end the old one then. */
  writesAreRefused = false;
  #running = [];
  #resumed = undefined;
  #idle = 0;

  /**
   * @param {{ record, ledger, targets: () => { balancer: string | undefined, replicas: string[] }, adminKey: string,
   *   timeoutMs?: number, onlyBalancer?: boolean, repeatsRefreshes?: boolean }} world
   */
  constructor({ record, ledger, targets, adminKey, timeoutMs, onlyBalancer = false, repeatsRefreshes = true }) {
    Object.assign(this, { record, ledger, targets, adminKey, timeoutMs, onlyBalancer, repeatsRefreshes });
  }

  start() {
    this.#running = ACTORS.map((live, index) => this.#run(live, index));
  }

  /** Resolves when every actor has finished its script. They continue when the returned function is called. */
  async pause() {
    let resume;
    this.#resumed = new Promise((resolve) => (resume = resolve));
    while (this.#idle < this.#running.length) await sleep(10);
    return () => {
      this.#resumed = undefined;
      resume();
    };
  }

  async stop() {
    this.isOver = true;
    await Promise.all(this.#running);
    this.record.end();
  }

  think(ms = THINK_TIME_MS) {
    return sleep(ms * (0.5 + Math.random()));
  }

  /** Sends a request: half of the time through the balancer, otherwise to a random replica. */
  async ask(request, base = this.#pick()) {
    const headers = { ...request.headers, 'X-Forwarded-For': request.from ?? OPERATOR };
    const answer = await ask(base, { timeoutMs: this.timeoutMs, ...request, headers });
    this.record.answered(request, answer);
    return answer;
  }

  /** Sends a request to every replica at the same time. */
  everywhere(request) {
    const { replicas, balancer } = this.targets();
    return Promise.all((this.onlyBalancer ? [balancer, balancer] : replicas).map((base) => this.ask(request, base)));
  }

  admin(method, path, body, base) {
    const headers = { 'X-Admin-Key': this.adminKey };
    return this.ask({ method, path: `/api/v0/admin${path}`, body, headers }, base);
  }

  /**
   * Judges a response by the life of its credential.
   * @returns true when it was accepted, false when it was refused, undefined without a verdict
   */
  judge(kind, what, life, answer, accepted = 200) {
    if (answer.status !== accepted && answer.status !== 401) return this.#noVerdict(kind, what, answer);
    const objection = life.objection(answer.status === accepted, answer);
    if (objection) this.record.wrongVerdict(`${kind} of ${what}: ${objection}`);
    else this.record.right(kind, answer);
    return answer.status === accepted;
  }

  /** @returns whether it was acknowledged */
  done(kind, what, answer, expected) {
    if (answer.status !== expected) return this.#noVerdict(kind, what, answer) ?? false;
    this.record.right(kind, answer);
    return true;
  }

  /** Retries an idempotent request until it is acknowledged. @returns false when the load ended before */
  async insist(kind, what, attempt, expected) {
    while (!this.isOver) {
      if (this.done(kind, what, await attempt(), expected)) return true;
      await sleep(RETRY_INTERVAL_MS);
    }
    return false;
  }

  /** 503, 429 and a lost connection are not verdicts; any other status is wrong. */
  #noVerdict(kind, what, answer) {
    if (answer.status === 503 || answer.status === 429 || mayStillHappen(answer)) this.record.error(kind, answer);
    else this.record.wrongVerdict(`${kind} of ${what}: answered ${answer.status} ${answer.body?.code ?? ''}`);
    return undefined;
  }

  #pick() {
    const { balancer, replicas } = this.targets();
    if (balancer && (this.onlyBalancer || Math.random() < 0.5)) return balancer;
    return replicas[randomInt(replicas.length)];
  }

  async #run(live, index) {
    await sleep(index * 10);
    while (!this.isOver) {
      await live(this);
      await this.think();
      this.#idle += 1;
      await this.#resumed;
      this.#idle -= 1;
    }
  }
}
