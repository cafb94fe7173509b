import type { VerifierLogger } from './options.js';

/** Logs each cause once, until it is gone. */
export class Misconfigurations {
  private readonly causes = new Set<string>();

  constructor(private readonly logger: VerifierLogger) {}

  /** @param detail what the service answered: a status and a code, never a credential */
  report(path: string, detail: string): void {
    if (this.causes.has(path)) return;
    this.causes.add(path);
    this.logger.warn('verifier_misconfigured', { path, detail });
  }

  clear(path: string): void {
    this.causes.delete(path);
  }
}
