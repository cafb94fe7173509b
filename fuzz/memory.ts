import { setTimeout as sleep } from 'node:timers/promises';
import type { FuzzedService } from './service.js';

/** With a small heap, V8 keeps little garbage. A leak of 0.5 KB in each of 100,000 requests exceeds this. */
export const MAX_GROWTH_MEGABYTES = 32;
const SAMPLE_INTERVAL_MS = 250;
const REST_INTERVAL_MS = 1_000;
const MAX_RESTS = 15;

/** Watches the resident memory of the service. */
export class MemoryWatch {
  /** The maximum during the warm-up, in megabytes; undefined without /proc. */
  before: number | undefined;
  after: number | undefined;
  private readonly timer: NodeJS.Timeout;

  constructor(private readonly service: FuzzedService) {
    this.timer = setInterval(() => this.sample(), SAMPLE_INTERVAL_MS).unref();
  }

  warmedUp(): void {
    clearInterval(this.timer);
    this.sample();
  }

  /** Waits until the service holds at most as much memory as before. @returns what is wrong when it does not */
  async judge(rests = MAX_RESTS): Promise<string | undefined> {
    const { before } = this;
    for (let rest = 0; rest < rests; rest += 1) {
      await sleep(REST_INTERVAL_MS);
      this.after = this.service.residentMegabytes();
      if (before === undefined || this.after === undefined || this.after <= before) return undefined;
    }
    if (before === undefined || this.after === undefined || this.after <= before + MAX_GROWTH_MEGABYTES)
      return undefined;
    return `${before} MB at most while it warmed up, ${this.after} MB after the run and a rest`;
  }

  private sample(): void {
    const megabytes = this.service.residentMegabytes();
    if (megabytes !== undefined) this.before = Math.max(megabytes, this.before ?? 0);
  }
}
