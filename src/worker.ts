import { wantsTracing, workerEnvironment } from './config/environment.js';

// One of several processes on one port; src/workers/primary.ts forks it. Tracing comes first, as in main.ts.
const stopTracing = wantsTracing() ? (await import('./tracing.js')).startTracing() : undefined;
const { watchStart } = await import('./watch-start.js');
try {
  const { serveApp } = await import('./serve-app.js');
  const environment = workerEnvironment();
  const watch = watchStart(environment);
  await watch.limit(serveApp(environment, watch, stopTracing));
} catch (error) {
  const { explain } = await import('./start-failure.js');
  console.error(explain(error));
  process.exit(1);
}
