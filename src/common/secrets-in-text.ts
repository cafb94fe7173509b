/** Our keys, refresh tokens and tokens of links, wherever they stand in a text: the kind, and what follows the prefix. */
export const SECRETS = /pa_([a-z]+)_([\w-]{43,})/g;

/** For texts that callers choose, such as the name of a service: a caller may have put a key into the wrong field. */
export function redactSecrets(text: string): string {
  return text.includes('pa_') ? text.replace(SECRETS, 'pa_$1_[redacted]') : text;
}
