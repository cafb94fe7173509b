import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { z } from 'zod';

const BUILD_TIMEOUT_MS = 1_200_000;
const downloaded = z.object({ Dir: z.string() });

/**
 * Builds a program from the Go module proxy once, and keeps it in node_modules/.cache.
 * @param module its package, such as `example.org/tool/v2/cmd/tool`
 * @returns the path of the program
 * @throws when Go is missing, or the module cannot be built
 */
export function buildGoProgram(module: string, version: string): string {
  const folder = resolve('node_modules/.cache', `${module.replaceAll(/[^\w.]+/g, '-')}-${version}`);
  // Go names the program after the last part of the package, or the one before its major version.
  const [name = ''] = module
    .split('/')
    .filter((part) => !/^v\d+$/.test(part))
    .slice(-1);
  const program = join(folder, name);
  if (existsSync(program)) return program;
  mkdirSync(folder, { recursive: true });
  console.error(`Building ${name} ${version}, only the first time …`);
  // Without symbols for debuggers the linker takes half of the CPU.
  runGo(['install', '-ldflags=-s -w', `${module}@${version}`], { GOBIN: folder, GOFLAGS: '-buildvcs=false' });
  return program;
}

/** @returns the folder with the source of a module */
export function downloadGoModule(module: string, version: string): string {
  return downloaded.parse(JSON.parse(runGo(['mod', 'download', '-json', `${module}@${version}`]))).Dir;
}

/** @returns what it printed @throws with what it complained of */
export function runGo(words: readonly string[], variables: Record<string, string> = {}): string {
  const env = { ...process.env, ...variables };
  const { status, error, stdout, stderr } = spawnSync('go', words, {
    env,
    timeout: BUILD_TIMEOUT_MS,
    encoding: 'utf8',
  });
  if (status === 0) return stdout;
  throw new Error(`go ${words.join(' ')}: ${error?.message ?? (stderr.trim() || stdout.trim())}`);
}
