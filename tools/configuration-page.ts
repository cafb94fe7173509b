import { readFileSync, writeFileSync } from 'node:fs';
import { renewConfigurationPage, toEnvExample } from './configuration-text.js';

// Writes .env.example, and the tables and rules of docs/configuration.md.

const PAGE = 'docs/configuration.md';

writeFileSync('.env.example', toEnvExample());
writeFileSync(PAGE, renewConfigurationPage(readFileSync(PAGE, 'utf8')));
