import { join } from 'node:path';

/**
 * Tests run from `dist/`.
 * @returns the path of a file of the repository
 */
export function fromRoot(path: string): string {
  return join(import.meta.dirname, '../../..', path);
}
