// Writes .env.example, the tables and rules of docs/configuration.md, and the JSON Schemas of the map and of the variables.
import { readFileSync, writeFileSync } from 'node:fs';
import { listSchemas, renewConfigurationPage, toEnvExample } from './configuration-text.js';

const PAGE = 'docs/configuration.md';

writeFileSync('.env.example', toEnvExample());
for (const [path, schema] of Object.entries(listSchemas())) writeFileSync(path, schema);
writeFileSync(PAGE, renewConfigurationPage(readFileSync(PAGE, 'utf8')));
