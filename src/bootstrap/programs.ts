import { isTracingRequested } from '../foundation/config/environment.js';
import type { StopTracing } from './tracing.js';

// The programs of the service: a process of its own (main.ts), and a worker of a fleet (worker.ts). tools/build.js makes one
// bundle of both.

export async function runService(): Promise<void> {
  const stopTracing = await startTracing();
  const { serve } = await import('./serve.js');
  await serve(stopTracing);
}

/** One of several processes on one port, forked by src/bootstrap/workers.ts. */
export async function runWorker(): Promise<void> {
  const stopTracing = await startTracing();
  const { serveWorker } = await import('./serve.js');
  await serveWorker(stopTracing);
}

/** Loads what every start needs, for the build, which keeps the compiled code. */
export async function loadService(): Promise<void> {
  await import('./serve.js');
  await import('./serve-app.js');
}

/**
 * Tracing patches modules as they are loaded, so the service is imported after it. The packages of OpenTelemetry are
 * optional, because they weigh more than a third of all others.
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
