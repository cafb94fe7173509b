// Writes what V8 compiled of the bundle of the service when all is loaded that a start needs: node [flags] compile-service.js
// NAME. The flags are those of the service. See tools/service-code.ts.
import { renameSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

const folder = resolve('dist/service');
const [name = ''] = process.argv.slice(2);
const { computeDigest, loadBundle } = (await import(
  join(folder, 'service-code.js')
)) as typeof import('./service-code.js');
const { text, script, service } = loadBundle(name);
await service.loadService();
const file = join(folder, `${name}.code`);
const code = script.createCachedData();
// A service that starts meanwhile reads the old code or the new one.
writeFileSync(`${file}.new`, Buffer.concat([code, computeDigest(text, code)]));
renameSync(`${file}.new`, file);
process.exit();
