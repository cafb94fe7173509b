// Runs the bundle of the service with the code that V8 compiled during the build (docs/performance.md); the build
// copies this file beside the bundle. V8 rejects code of another version of Node.js or of other flags, but does not
// notice damage, which crashes the process: so the code file ends with a digest. The code is executed, so it lies where
// only the owner of the bundle writes.

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { Script } from 'node:vm';
import type * as Programs from '../src/bootstrap/programs.js';

const DIGEST_BYTES = 32;

/** @returns the script, and the exports of src/bootstrap/programs.ts */
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

/** @returns undefined when the file is missing, damaged or belongs to another bundle */
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
