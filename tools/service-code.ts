// The build copies this file beside the bundle of the service. It runs the bundle with the code that V8 compiled of it during
// the build (docs/performance.md). V8 rejects code of another version of Node.js, or of other flags, and compiles the bundle.
// The code is executed: it lies beside the bundle, where only the owner of the bundle writes, and never in a shared folder.
// V8 does not notice damaged code, which crashes the process: the file ends with a digest of the bundle and the code.

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { Script } from 'node:vm';
import type * as Programs from '../src/bootstrap/programs.js';

const DIGEST_BYTES = 32;

/** @returns the script, and what src/bootstrap/programs.ts exports */
export function loadBundle(name: string): { text: Buffer; script: Script; service: typeof Programs } {
  const bundle = new URL(`${name}.cjs`, import.meta.url);
  const text = readFileSync(bundle);
  const cachedData = readCode(name, text);
  const script = new Script(text.toString('latin1'), { filename: fileURLToPath(bundle), cachedData });
  const module = { exports: {} };
  const run = script.runInThisContext() as (...values: unknown[]) => void;
  run(module, module.exports, createRequire(bundle), bundle.href);
  return { text, script, service: module.exports as typeof Programs };
}

/** @returns undefined when the file is missing, damaged or of another bundle */
function readCode(name: string, text: Buffer): Buffer | undefined {
  try {
    const file = readFileSync(new URL(`${name}.code`, import.meta.url));
    const code = file.subarray(0, -DIGEST_BYTES);
    return computeDigest(text, code).equals(file.subarray(-DIGEST_BYTES)) ? code : undefined;
  } catch {
    return undefined;
  }
}

export function computeDigest(text: Buffer, code: Buffer): Buffer {
  return createHash('sha256').update(text).update(code).digest();
}
