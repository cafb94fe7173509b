import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

/** This program is compiled into dist/examples/platform. */
export const ROOT = resolve(fileURLToPath(new URL('../../../', import.meta.url)));
/** Shown in commands, which are typed in the root of the project. */
export const EXAMPLE = 'examples/platform';
export const CLI = 'dist/service/platform-auth.js';

export const toPath = (...parts: string[]): string => join(ROOT, ...parts);

/** The example cannot start; the message says what to do. */
export class ExampleError extends Error {
  override readonly name = 'ExampleError';
}
