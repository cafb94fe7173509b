// The log events of a verifier. They never contain a credential.
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

const MAX_MESSAGE_LENGTH = 200;
/** Shorter parts of a credential occur in ordinary words. */
const MIN_SECRET_LENGTH = 6;
const REDACTED = '[redacted]';
/** Matches what looks like a key of the platform, a token, or another long secret. */
const LOOKS_SECRET = /\S*(?:pa_[a-z]+_|eyJ[A-Za-z0-9_-]{5}|[A-Za-z0-9_-]{32})\S*/g;

/** Logs unexpected errors, once for each class and place. */
export class UnexpectedErrors {
  private readonly reported = new Set<string>();

  /** @param readSecrets reads the secrets of the configuration; the own key may change */
  constructor(
    private readonly logger: VerifierLogger,
    private readonly readSecrets: () => readonly string[],
  ) {}

  /** @param presented credentials, which the message of the error may contain */
  report(thrown: unknown, presented: readonly string[] = []): void {
    const error = thrown instanceof Error ? thrown.constructor.name : typeof thrown;
    const where = findPlace(thrown);
    if (this.reported.has(`${error} ${where}`)) return;
    this.reported.add(`${error} ${where}`);
    const message = thrown instanceof Error ? thrown.message : String(thrown);
    this.logger.warn('verifier_failed', {
      error,
      detail: redact(message, [...this.readSecrets(), ...presented]),
      where,
    });
  }
}

function redact(message: string, secrets: readonly string[]): string {
  let text = message.replace(/\s+/g, ' ');
  for (const part of secrets.flatMap((secret) => [secret, ...secret.split(/[:. ]/)])) {
    if (part.length >= MIN_SECRET_LENGTH) text = text.replaceAll(part, REDACTED);
  }
  return text.replace(LOOKS_SECRET, REDACTED).slice(0, MAX_MESSAGE_LENGTH);
}

/** The innermost frame: the file with its folder, and the line. */
function findPlace(thrown: unknown): string {
  const frames = thrown instanceof Error ? (thrown.stack ?? '').split('\n') : [];
  const frame = frames.find((line) => /^\s+at /.test(line)) ?? '';
  return /[^/\\\s(]+[/\\][^/\\]+:\d+(?=:\d+\)?$)/.exec(frame)?.[0] ?? 'unknown';
}
