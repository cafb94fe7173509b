import { wantsTracing, workerEnvironment } from './config/environment.js';

// One of several processes on one port; src/workers/primary.ts starts it. Tracing comes first, as in main.ts.
const stopTracing = wantsTracing() ? (await import('./tracing.js')).startTracing() : undefined;
const { watchStart } = await import('./watch-start.js');
const { answerPings, reportStartFailure } = await import('./workers/worker-messages.js');
try {
  answerPings();
  const { serveApp } = await import('./serve-app.js');
  const environment = workerEnvironment();
  const watch = watchStart(environment);
  await watch.limit(serveApp(environment, watch, stopTracing));
} catch (error) {
  const { explain } = await import('./start-failure.js');
  await reportStartFailure(explain(error));
  process.exit(1);
}
