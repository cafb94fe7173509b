// Writes worlds.jsonl, after a change of the model: `npm run build && node dist/clients/conformance/write-worlds.js`.
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { recordWorlds } from '../../packages/lease/test/model/recordings.js';

writeFileSync(
  fileURLToPath(new URL('../../../clients/conformance/worlds.jsonl', import.meta.url)),
  await recordWorlds(),
);
