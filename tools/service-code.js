// The build copies this file beside the bundle of the service. It runs the bundle with the code that V8 compiled of it during
// the build (docs/performance.md). V8 rejects code of another version of Node.js, or of other flags, and compiles the bundle.
// The code is executed: it lies beside the bundle, where only the owner of the bundle writes, and never in a shared folder.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { Script } from 'node:vm';

/** @returns the script, and what src/bootstrap/programs.ts exports */
export function loadBundle(name) {
  const bundle = new URL(`${name}.cjs`, import.meta.url);
  const text = readFileSync(bundle, 'latin1');
  const script = new Script(text, { filename: fileURLToPath(bundle), cachedData: readCode(name) });
  const module = { exports: {} };
  script.runInThisContext()(module, module.exports, createRequire(bundle), bundle.href);
  return { script, service: module.exports };
}

function readCode(name) {
  try {
    return readFileSync(new URL(`${name}.code`, import.meta.url));
  } catch {
    return undefined;
  }
}
