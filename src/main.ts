import { runService } from './bootstrap/programs.js';

await runService();
