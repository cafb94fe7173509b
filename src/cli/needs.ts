// What commands need from their environment, for their help.

export const NEEDS_ADMIN_KEY =
  'Needs ADMIN_API_KEY or ADMIN_API_KEY_FILE (it may be the key of an operator), in the environment or in .env.';
export const NEEDS_DATABASE =
  'Connects to the database: needs DATABASE_URL or DATABASE_URL_FILE, in the environment or in .env.';
export const EXIT_CODES =
  'Exit codes: 0 done, 1 failed or something is broken, 2 wrong usage, 141 the reader of the output has ended.';

/** @returns the end of a help text */
export function formatNeeds(needs: string, example: string): string {
  return `\n${needs}\n\nExample:\n  ${example}`;
}
