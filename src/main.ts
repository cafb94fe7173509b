import { isTracingRequested } from './config/environment.js';

// Tracing looks into other modules as they are loaded: the service itself may be imported only after it.
const stopTracing = isTracingRequested() ? (await import('./tracing.js')).startTracing() : undefined;
const { serve } = await import('./serve.js');
await serve(stopTracing);
