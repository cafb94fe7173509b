import { runWorker } from './programs.js';

// workers.ts forks the file of this name, both here and in the bundle.
await runWorker();
