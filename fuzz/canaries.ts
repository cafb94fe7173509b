/** Part of every secret and of every invalid value. It must appear in no response and in no log line. */
export const SECRET = 'SECRETCANARY7F3A91';
/** Part of e-mail addresses and labels. It may appear in a response that reads them, but in no log line and in no error. */
export const LABEL = 'LABELCANARY7F3A91';

const RETURNED = new Set(['email', 'room', 'name']);
/** By contract, names of services are returned and logged. */
const PUBLIC = new Set(['caller', 'target', 'targets']);
/** The prefixes of refresh tokens, keys, JWTs and bcrypt hashes. */
const ISSUED = /pa_(rt|app|node)_|eyJ[\w-]{10}|\$2[aby]\$\d\d\$/;
const MAX_LEAKS = 5;
const MAX_LEAK_LENGTH = 500;

/** @returns the canary for a field */
export function canaryOf(field: string): string {
  if (PUBLIC.has(field)) return '';
  return RETURNED.has(field) ? LABEL : SECRET;
}

/** @returns what a response leaks; undefined when it leaks nothing */
export function leakOfAnswer(status: number, text: string): string | undefined {
  if (shows(text, SECRET)) return 'the answer shows a secret that was sent';
  if (status >= 300 && shows(text, LABEL)) return 'an error repeats what was sent';
  if (/\$2[aby]\$\d\d\$/.test(text)) return 'the answer holds a bcrypt hash';
  return undefined;
}

/** Checks every line that the service writes. */
export class LogWatch {
  lines = 0;
  /** At most five, because one fault may leak in a hundred thousand lines. */
  readonly leaks: string[] = [];

  /** @param secrets of the service's configuration, which must never be logged */
  constructor(public secrets: readonly string[] = []) {}

  read(line: string): void {
    this.lines += 1;
    const leak = this.leakOf(line);
    if (leak !== undefined && this.leaks.length < MAX_LEAKS)
      this.leaks.push(`${leak}: ${line.slice(0, MAX_LEAK_LENGTH)}`);
  }

  private leakOf(line: string): string | undefined {
    if (shows(line, SECRET) || shows(line, LABEL)) return 'a canary is in the log';
    if (ISSUED.test(line)) return 'a token, key or hash is in the log';
    if (this.secrets.some((secret) => line.includes(secret))) return 'a secret of the configuration is in the log';
    // oxlint-disable-next-line no-control-regex
    if (/[\u0000-\u001f\u007f-\u009f\u2028\u2029]/.test(line)) return 'a control character is in the log';
    return isJsonObject(line) ? undefined : 'a line of the log is not a JSON object';
  }
}

function shows(text: string, canary: string): boolean {
  return text.toUpperCase().includes(canary);
}

function isJsonObject(line: string): boolean {
  try {
    return line.startsWith('{') && typeof JSON.parse(line) === 'object';
  } catch {
    return false;
  }
}
