import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { recordWorlds } from './model/recordings.js';

describe('the recorded worlds of clients/conformance/worlds.jsonl', () => {
  it('are those of the model', async () => {
    const written = readFileSync(resolve('clients/conformance/worlds.jsonl'), 'utf8');
    // A comparison of the texts would print both.
    expect((await recordWorlds()) === written).toBe(true);
  });
});
