// Stores the code that V8 has compiled once all that a start needs is loaded: node [flags] compile-service.js NAME. The
// flags must be those of the service (tools/service-code.ts).
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
// Renamed into place, so that a service that starts meanwhile reads the old code or the new one, never half.
writeFileSync(`${file}.new`, Buffer.concat([code, computeDigest(text, code)]));
renameSync(`${file}.new`, file);
process.exit();
