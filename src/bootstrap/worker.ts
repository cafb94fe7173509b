import { runWorker } from './programs.js';

// The file that workers.ts forks, beside serve.ts here and beside the bundle.
await runWorker();
