/** Matches keys, refresh tokens and tokens of links of this service. Group 1 is the kind, group 2 the secret part. */
export const SECRETS = /pa_([a-z]+)_([\w-]{43,})/g;

/**
 * Redacts our secrets in a text that a caller chose, such as the name of a service: the caller may have sent a key in
 * the wrong field.
 * This module imports nothing, because the log and crypto/ both need it.
 */
export function redactSecrets(text: string): string {
  return text.includes('pa_') ? text.replace(SECRETS, 'pa_$1_[redacted]') : text;
}
