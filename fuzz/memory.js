/** With a small heap the engine holds what it needs. A leak of half a KB in each of 100,000 requests is more than this. */
export const MARGIN_MEGABYTES = 32;
const SAMPLE_MS = 250;
const REST_MS = 1_000;
const MOST_RESTS = 15;

/** Watches how much memory the service holds. */
export class MemoryWatch {
  /** The most that it held while it warmed up; undefined where the system does not say. */
  before;
  after;
  #timer;

  constructor(service) {
    this.service = service;
    this.#timer = setInterval(() => this.#sample(), SAMPLE_MS).unref();
  }

  #sample() {
    const now = this.service.residentMegabytes();
    if (now !== undefined) this.before = Math.max(now, this.before ?? 0);
  }

  warmedUp() {
    clearInterval(this.#timer);
    this.#sample();
  }

  /** Lets the service rest until it holds no more than before. @returns what is wrong when it does not */
  async judge(rests = MOST_RESTS) {
    for (let rest = 0; rest < rests; rest += 1) {
      await new Promise((resolve) => setTimeout(resolve, REST_MS));
      this.after = this.service.residentMegabytes();
      if (this.after === undefined || this.after <= this.before) return undefined;
    }
    if (this.after <= this.before + MARGIN_MEGABYTES) return undefined;
    return `${this.before} MB at most while it warmed up, ${this.after} MB after the run and a rest`;
  }
}
