import { wantsTracing, workerEnvironment } from './config/environment.js';

// One of several processes on one port; src/workers/primary.ts forks it. Tracing comes first, as in main.ts.
const stopTracing = wantsTracing() ? (await import('./tracing.js')).startTracing() : undefined;
try {
  const { serveApp } = await import('./serve-app.js');
  await serveApp(workerEnvironment(), stopTracing);
} catch (error) {
  const { explain } = await import('./start-failure.js');
  console.error(explain(error));
  process.exit(1);
}
