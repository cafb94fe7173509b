import { now } from './client.js';

/** What every machine and every user depends on: none of these may stay without a right answer for long. */
export const HOT = ['validate-node', 'validate-app', 'users/me', 'refresh', 'login', 'admin'];

/** What was answered during one scenario, and how long nothing right was. */
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

  /** An answer that decides nothing: the caller tries again. */
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

  /** From here on everything is whole again. */
  healed() {
    this.#healedAt = now();
  }

  /** The load is over; the silence up to here counts too. */
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

  /** Milliseconds, and of which route. */
  get silence() {
    return worst([...this.#kinds].map(([name, kind]) => ({ name, ms: kind.silenceMs })));
  }

  /** From the healing to the first right answer of the last route that came back; undefined when nothing was broken. */
  get back() {
    if (this.#healedAt === undefined) return undefined;
    const ms = (kind) => (kind.backAt === undefined ? Infinity : kind.backAt - this.#healedAt);
    return worst([...this.#kinds].map(([name, kind]) => ({ name, ms: ms(kind) })));
  }
}

function worst(all) {
  return all.reduce((most, one) => (one.ms > most.ms ? one : most));
}
