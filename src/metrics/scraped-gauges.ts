import { Injectable } from '@nestjs/common';

const KEEP_MS = 30_000;
const PATIENCE_MS = 1_000;

export interface ScrapedGauge {
  readonly name: string;
  readonly help: string;
  /** @returns undefined when it cannot be told */
  readonly read: () => Promise<number | undefined>;
}

/**
 * Figures of the rooms above that have to be asked for, such as a count in the database. Each is asked at most twice a
 * minute however often somebody looks, is waited for briefly, and is missing, not wrong, when it cannot be told.
 */
@Injectable()
export class ScrapedGauges {
  private readonly gauges: ScrapedGauge[] = [];

  add(name: string, help: string, ask: () => Promise<number>): void {
    let value: Promise<number | undefined> | undefined;
    let askedAt = 0;
    const read = (): Promise<number | undefined> => {
      const now = performance.now();
      if (value === undefined || now - askedAt >= KEEP_MS) {
        askedAt = now;
        value = ask().catch(() => undefined);
      }
      return within(PATIENCE_MS, value);
    };
    this.gauges.push({ name, help, read });
  }

  all(): readonly ScrapedGauge[] {
    return this.gauges;
  }
}

async function within<T>(milliseconds: number, answer: Promise<T>): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const tooLate = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), milliseconds);
  });
  try {
    return await Promise.race([answer, tooLate]);
  } finally {
    clearTimeout(timer);
  }
}
