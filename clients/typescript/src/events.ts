// The log events of a verifier. They never hold a credential.
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

/** Logs unexpected errors, each class once. */
export class UnexpectedErrors {
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
