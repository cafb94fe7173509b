import { isTracingRequested } from './config/environment.js';

// Tracing patches modules as they are loaded, so the service is imported after it.
const stopTracing = isTracingRequested() ? (await import('./bootstrap/tracing.js')).startTracing() : undefined;
const { serve } = await import('./bootstrap/serve.js');
await serve(stopTracing);
