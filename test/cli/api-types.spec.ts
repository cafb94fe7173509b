import { readFileSync } from 'node:fs';
import type { OpenAPIObject } from '@nestjs/swagger';
import { CLI_TYPES_FILE, generateCliTypes } from '../../tools/cli-types.js';
import { useApp } from '../support/use-app.js';

describe('the types of what the command line reads', () => {
  const app = useApp();

  it('are those of the OpenAPI document (npm run docs:api renews them)', async () => {
    const { body } = await app.get('/docs-json').expect(200);
    const text = await generateCliTypes(body as OpenAPIObject);
    expect(readFileSync(CLI_TYPES_FILE, 'utf8')).toBe(text);
  });
});
