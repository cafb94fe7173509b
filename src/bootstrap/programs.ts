// The programs of the service, in one bundle (tools/build.js): a process of its own (main.ts), and a worker of a fleet
// (worker.ts).
import { isTracingRequested } from '../foundation/config/environment.js';
import type { StopTracing } from './tracing.js';

export async function runService(): Promise<void> {
  const stopTracing = await startTracing();
  const { serve } = await import('./serve.js');
  await serve(stopTracing);
}

/** Runs as one of several processes on one port, forked by workers.ts. */
export async function runWorker(): Promise<void> {
  const stopTracing = await startTracing();
  const { serveWorker } = await import('./serve.js');
  await serveWorker(stopTracing);
}

/** Loads all code that a start needs, so that the build can store it compiled. */
export async function loadService(): Promise<void> {
  await import('./serve.js');
  await import('./serve-app.js');
}

/**
 * Starts tracing before the service is imported, because tracing patches modules while they load. The packages of
 * OpenTelemetry are optional: they weigh more than a third of all others.
 */
async function startTracing(): Promise<StopTracing | undefined> {
  if (!isTracingRequested()) return undefined;
  try {
    const tracing = await import('./tracing.js');
    return tracing.startTracing();
  } catch (error) {
    if (!(error as NodeJS.ErrnoException).code?.endsWith('MODULE_NOT_FOUND')) throw error;
    console.error(
      'The service cannot start: OTEL_… variables ask for traces, and the packages of OpenTelemetry are not installed.\n' +
        'Install them (npm ci without --omit=optional; image: docker build --build-arg TRACING=yes), or unset the variables.',
    );
    process.exit(1);
  }
}
