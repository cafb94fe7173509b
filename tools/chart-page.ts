// Writes the table of the README and the names of variables in the schema of deploy/helm/platform-auth.
import { writeFileSync } from 'node:fs';
import { renewChartFiles } from './chart-text.js';

for (const [path, text] of Object.entries(await renewChartFiles())) writeFileSync(path, text);
