import type { VerifierLogger } from './options.js';

/** Logs errors that no rule foresees, each class once. */
export class Defects {
  private readonly reported = new Set<string>();

  constructor(private readonly logger: VerifierLogger) {}

  /** Without the message of the error, which may hold a credential. */
  report(error: unknown): void {
    const name = error instanceof Error ? error.constructor.name : typeof error;
    if (this.reported.has(name)) return;
    this.reported.add(name);
    this.logger.warn('verifier_failed', { error: name });
  }
}
