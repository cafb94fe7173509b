import type { Door } from './principals.js';

/** `unavailable`: the credential could not be verified (503). */
export type Verdict = 'accepted' | 'refused' | 'unavailable';

/** The counts since the verifier was created. */
export type Counts = Readonly<Record<Door, Readonly<Record<Verdict, number>>>>;

const createCounts = (): Record<Verdict, number> => ({ accepted: 0, refused: 0, unavailable: 0 });

export class VerdictCounts {
  private readonly counts = { app: createCounts(), node: createCounts(), user: createCounts() };

  /**
   * @param onVerdict callback of the service that embeds the verifier
   * @param onFailure called when `onVerdict` throws, which changes no verdict
   */
  constructor(
    private readonly onVerdict: ((door: Door, verdict: Verdict) => void) | undefined,
    private readonly onFailure: (error: unknown) => void,
  ) {}

  add(door: Door, verdict: Verdict): void {
    this.counts[door][verdict] += 1;
    if (!this.onVerdict) return;
    try {
      this.onVerdict(door, verdict);
    } catch (error) {
      this.onFailure(error);
    }
  }

  read(): Counts {
    return structuredClone(this.counts);
  }
}
