import { isTracingRequested } from './config/environment.js';
import type { StopTracing } from './bootstrap/tracing.js';

// Tracing patches modules as they are loaded, so the service is imported after it.
const stopTracing = isTracingRequested() ? await startTracing() : undefined;
const { serve } = await import('./bootstrap/serve.js');
await serve(stopTracing);

/** The packages of OpenTelemetry are optional, because they weigh more than a third of all others. */
async function startTracing(): Promise<StopTracing> {
  try {
    const tracing = await import('./bootstrap/tracing.js');
    return tracing.startTracing();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') throw error;
    console.error(
      'The service cannot start: OTEL_… variables ask for traces, and the packages of OpenTelemetry are not installed.\n' +
        'Install them (npm ci without --omit=optional; image: docker build --build-arg TRACING=yes), or unset the variables.',
    );
    process.exit(1);
  }
}
