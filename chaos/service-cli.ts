import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { Variables } from '../src/foundation/config/environment.js';

export const CLI = fileURLToPath(new URL('../service/platform-auth.js', import.meta.url));
const MAX_OUTPUT_BYTES = 64 * 1024 * 1024;
const run = promisify(execFile);

/**
 * Runs `platform-auth` beside this process, whose proxies go on.
 * @returns what it printed
 * @throws when it fails
 */
export async function runCli(words: readonly string[], variables: Variables): Promise<string> {
  const env = { PATH: process.env.PATH, ...variables };
  const { stdout } = await run(process.execPath, [CLI, ...words], { env, maxBuffer: MAX_OUTPUT_BYTES });
  return stdout;
}
