/** Our keys, refresh tokens and tokens of links in a text: the kind, and what follows the prefix. */
export const SECRETS = /pa_([a-z]+)_([\w-]{43,})/g;

/**
 * Removes our secrets from a text that a caller chose, such as the name of a service: the caller may have sent a key in the
 * wrong field. It is apart from crypto/, because the log needs it too, and imports nothing.
 */
export function redactSecrets(text: string): string {
  return text.includes('pa_') ? text.replace(SECRETS, 'pa_$1_[redacted]') : text;
}
