import type { VerifierLogger } from './options.js';

/** Logs each cause once, until it is gone. */
export class Misconfigurations {
  private readonly causes = new Set<string>();

  constructor(private readonly logger: VerifierLogger) {}

  /**
   * @param cause a path of the service, or a variable
   * @param detail what the service answered: a status and a code, never a credential
   */
  report(cause: string, detail: string): void {
    if (this.causes.has(cause)) return;
    this.causes.add(cause);
    this.logger.warn('verifier_misconfigured', { cause, detail });
  }

  clear(cause: string): void {
    this.causes.delete(cause);
  }
}
