import { isTracingRequested, readWorkerEnvironment } from '../config/environment.js';

// One of several processes on one port, forked by src/bootstrap/workers.ts. Tracing starts first, as in main.ts.
const stopTracing = isTracingRequested() ? (await import('./tracing.js')).startTracing() : undefined;
const { describeStartFailure, watchStart } = await import('./start-report.js');
try {
  const { serveApp } = await import('./serve-app.js');
  const environment = readWorkerEnvironment();
  const watch = watchStart(environment);
  await watch.limit(serveApp(environment, watch, stopTracing));
} catch (error) {
  console.error(describeStartFailure(error));
  process.exit(1);
}
