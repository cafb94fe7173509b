/** The name of a service of the platform, as in the map of who calls whom. */
export const MAX_SERVICE_NAME_LENGTH = 100;
export const SERVICE_NAME_PATTERN = '^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$';
export const SERVICE_NAME_DETAIL = 'must be 1 to 100 letters, digits, dots, dashes or underscores';
const SERVICE_NAME = new RegExp(SERVICE_NAME_PATTERN);

export function isServiceName(value: unknown): value is string {
  return typeof value === 'string' && SERVICE_NAME.test(value);
}
