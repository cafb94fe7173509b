import { now } from './client.js';

/** The hot routes: each must have correct responses again within the bound of the scenario. */
export const HOT = ['validate-node', 'validate-app', 'users/me', 'refresh', 'login', 'admin'];

/** The responses during one scenario, and the longest time without a correct one. */
export class Record {
  requests = 0;
  slowestMs = 0;
  slowestRequest = undefined;
  errors = new Map();
  wrong = [];
  lost = [];
  #startedAt = now();
  #healedAt = undefined;
  #endedAt = undefined;
  #kinds = new Map(HOT.map((kind) => [kind, { right: 0, lastAt: now(), silenceMs: 0, backAt: undefined }]));

  answered({ method = 'POST', path }, { startedAt, endedAt }) {
    this.requests += 1;
    if (this.#endedAt !== undefined || endedAt - startedAt <= this.slowestMs) return;
    this.slowestMs = endedAt - startedAt;
    this.slowestRequest = `${method} ${path}`;
  }

  /** A verdict that agrees with the ledger. */
  right(name, { startedAt, endedAt }) {
    const kind = this.#kinds.get(name);
    if (!kind || this.#endedAt !== undefined) return;
    kind.right += 1;
    kind.silenceMs = Math.max(kind.silenceMs, endedAt - kind.lastAt);
    kind.lastAt = endedAt;
    if (this.#healedAt !== undefined && startedAt >= this.#healedAt) kind.backAt ??= endedAt;
  }

  /** A response without a verdict: the caller retries. */
  error(name, { label }) {
    const key = `${label}`;
    const byKind = this.errors.get(key) ?? new Map();
    byKind.set(name, (byKind.get(name) ?? 0) + 1);
    this.errors.set(key, byKind);
  }

  wrongVerdict(text) {
    this.wrong.push(`${Math.round(now() - this.#startedAt)} ms: ${text}`);
  }

  lostWrite(text) {
    this.lost.push(text);
  }

  /** Marks the end of the fault. */
  healed() {
    this.#healedAt = now();
  }

  /** Marks the end of the load; a gap up to now counts too. */
  end() {
    this.#endedAt = now();
    for (const kind of this.#kinds.values()) kind.silenceMs = Math.max(kind.silenceMs, this.#endedAt - kind.lastAt);
  }

  countOf(label) {
    return [...(this.errors.get(label)?.values() ?? [])].reduce((sum, count) => sum + count, 0);
  }

  errorsOf(name) {
    return [...this.errors.values()].reduce((sum, byKind) => sum + (byKind.get(name) ?? 0), 0);
  }

  rightOf(name) {
    return this.#kinds.get(name).right;
  }

  /** The longest time without a correct response, and its route. */
  get silence() {
    return worst([...this.#kinds].map(([name, kind]) => ({ name, ms: kind.silenceMs })));
  }

  /** From the end of the fault to the first correct response of the last route to recover; undefined without a fault. */
  get back() {
    if (this.#healedAt === undefined) return undefined;
    const ms = (kind) => (kind.backAt === undefined ? Infinity : kind.backAt - this.#healedAt);
    return worst([...this.#kinds].map(([name, kind]) => ({ name, ms: ms(kind) })));
  }
}

function worst(all) {
  return all.reduce((most, one) => (one.ms > most.ms ? one : most));
}
