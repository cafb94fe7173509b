/** With a small heap, V8 keeps little garbage. A leak of 0.5 KB in each of 100,000 requests exceeds this. */
export const MAX_GROWTH_MEGABYTES = 32;
const SAMPLE_INTERVAL_MS = 250;
const REST_INTERVAL_MS = 1_000;
const MAX_RESTS = 15;

/** Watches the resident memory of the service. */
export class MemoryWatch {
  /** The maximum during the warm-up; undefined without /proc. */
  before;
  after;
  #timer;

  constructor(service) {
    this.service = service;
    this.#timer = setInterval(() => this.#sample(), SAMPLE_INTERVAL_MS).unref();
  }

  #sample() {
    const now = this.service.residentMegabytes();
    if (now !== undefined) this.before = Math.max(now, this.before ?? 0);
  }

  warmedUp() {
    clearInterval(this.#timer);
    this.#sample();
  }

  /** Waits until the service holds at most as much memory as before. @returns what is wrong when it does not */
  async judge(rests = MAX_RESTS) {
    for (let rest = 0; rest < rests; rest += 1) {
      await new Promise((resolve) => setTimeout(resolve, REST_INTERVAL_MS));
      this.after = this.service.residentMegabytes();
      if (this.after === undefined || this.after <= this.before) return undefined;
    }
    if (this.after <= this.before + MAX_GROWTH_MEGABYTES) return undefined;
    return `${this.before} MB at most while it warmed up, ${this.after} MB after the run and a rest`;
  }
}
