/**
 * The name of an operator. It excludes what could be mistaken for another name, or for an e-mail address: it appears in
 * metrics, log lines and the audit log.
 */
export const MAX_OPERATOR_NAME_LENGTH = 64;
export const OPERATOR_NAME_PATTERN = '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$';
export const OPERATOR_NAME_DETAIL = 'must be 1 to 64 letters, digits, dots, dashes or underscores';
const OPERATOR_NAME = new RegExp(OPERATOR_NAME_PATTERN);

export function isOperatorName(value: unknown): value is string {
  return typeof value === 'string' && OPERATOR_NAME.test(value);
}

/** @returns the form in which a name is stored and compared */
export function toCanonicalOperatorName(name: string): string {
  return name.toLowerCase();
}
