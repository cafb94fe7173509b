import { InvalidEnvironment } from './config/environment.js';
import { WorkerStartFailed } from './workers/worker-messages.js';

/** Why a start failed, for whoever has to mend it. Holds no secret. */
export function explain(error: unknown): string {
  if (error instanceof InvalidEnvironment || error instanceof WorkerStartFailed) return error.message;
  const { code, port, message, variable } = error as NodeJS.ErrnoException & { port?: number; variable?: string };
  if (code === 'EADDRINUSE' && variable === 'METRICS_PORT') {
    return `Port ${port ?? ''} is taken: choose another METRICS_PORT.`;
  }
  if (code === 'EADDRINUSE') {
    return `Port ${port ?? ''} is taken: the service may be running already. Stop it, or choose another port: PORT=7702 npm start`;
  }
  if (variable !== undefined)
    return `HOST cannot be listened on (${code ?? 'unknown'}). It must be an address of this machine.`;
  if (code === 'ECONNREFUSED') return 'The database at DATABASE_URL refuses connections. Is it running?';
  return `The service could not start: ${message}`;
}
