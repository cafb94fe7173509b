import { join } from 'node:path';
import { runGo } from '../../tools/go-modules.js';
import { EXAMPLE, toPath } from './paths.js';

/** A build changes no go.mod, and downloads no other Go. */
const SETTINGS = { GOFLAGS: '-mod=readonly -buildvcs=false', GOTOOLCHAIN: 'local' };

/**
 * Compiles documents.
 * @returns the program; undefined where it cannot be compiled, after saying why, because the rest runs without it
 */
export function buildDocuments(folder: string, say: (text: string) => void): string | undefined {
  const program = join(toPath(folder), 'documents');
  try {
    runGo(['-C', toPath(EXAMPLE, 'documents'), 'build', '-o', program, '.'], SETTINGS);
    return program;
  } catch (error) {
    const cause = error instanceof Error ? error.message : String(error);
    say(`The service documents is left out, because it cannot be compiled; it needs Go 1.24 or newer. ${cause}`);
    return undefined;
  }
}
