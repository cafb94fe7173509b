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
  watchers.watchGraves,
];
const THINK_MS = 20;
const RETRY_MS = 100;
const OPERATOR = '10.0.0.1';

/** Callers of every hot route. Each lives one life after another and knows what it was promised. */
export class Load {
  isOver = false;
  /** Set while the database reads but does not write: a new key's first use cannot end the old one then. */
  writesAreRefused = false;
  #running = [];
  #resumed = undefined;
  #idle = 0;

  /**
   * @param {{ record, ledger, targets: () => { balancer: string | undefined, replicas: string[] }, adminKey: string,
   *   giveUpMs?: number, onlyBalancer?: boolean, repeatsRefreshes?: boolean }} world
   */
  constructor({ record, ledger, targets, adminKey, giveUpMs, onlyBalancer = false, repeatsRefreshes = true }) {
    Object.assign(this, { record, ledger, targets, adminKey, giveUpMs, onlyBalancer, repeatsRefreshes });
  }

  start() {
    this.#running = ACTORS.map((live, index) => this.#run(live, index));
  }

  /** Resolves when every caller has finished what it began. They go on when the returned function is called. */
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

  think(ms = THINK_MS) {
    return sleep(ms * (0.5 + Math.random()));
  }

  /** Asks through the balancer or, half of the time, one of the replicas itself. */
  async ask(request, base = this.#pick()) {
    const headers = { ...request.headers, 'X-Forwarded-For': request.from ?? OPERATOR };
    const answer = await ask(base, { giveUpMs: this.giveUpMs, ...request, headers });
    this.record.answered(request, answer);
    return answer;
  }

  /** Asks every replica at the same time. */
  everywhere(request) {
    const { replicas, balancer } = this.targets();
    return Promise.all((this.onlyBalancer ? [balancer, balancer] : replicas).map((base) => this.ask(request, base)));
  }

  admin(method, path, body, base) {
    const headers = { 'X-Admin-Key': this.adminKey };
    return this.ask({ method, path: `/api/v0/admin${path}`, body, headers }, base);
  }

  /**
   * Judges an answer about something that has a life.
   * @returns true when it was accepted, false when refused, undefined when there was no verdict
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

  /** Repeats what may be repeated until it is acknowledged. @returns false when the load ended before */
  async insist(kind, what, attempt, expected) {
    while (!this.isOver) {
      if (this.done(kind, what, await attempt(), expected)) return true;
      await sleep(RETRY_MS);
    }
    return false;
  }

  /** 503, 429 and a lost connection say nothing about the credential; anything else is an answer nobody should get. */
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
