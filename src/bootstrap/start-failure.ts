import { StartTimeoutError } from '../common/start-watch.js';
import { InvalidEnvironmentError } from '../config/environment.js';
import { WorkerStartError } from './workers/worker-fleet.js';

const FILE_ERROR_CODES = new Set(['EACCES', 'EPERM', 'EROFS', 'EISDIR']);

/** @returns why the start failed, for the operator; contains no secret */
export function describeStartFailure(error: unknown): string {
  if (error instanceof InvalidEnvironmentError || error instanceof WorkerStartError) return error.message;
  if (error instanceof StartTimeoutError) return `The service could not start: ${error.message}. Check DATABASE_URL.`;
  const { code, port, message, variable } = error as NodeJS.ErrnoException & { port?: number; variable?: string };
  if (code === 'EADDRINUSE' && (variable === 'METRICS_PORT' || variable === 'INTERNAL_PORT')) {
    return `Port ${port ?? ''} is taken: choose another ${variable}.`;
  }
  if (code === 'EADDRINUSE') {
    return `Port ${port ?? ''} is taken: the service may be running already. Stop it, or choose another port: PORT=7702 npm start`;
  }
  if (code === 'EACCES' && variable !== undefined && port !== undefined && port < 1_024)
    return `${variable} ${port} needs more rights than this user has: choose one above 1023.`;
  if (variable !== undefined)
    return `HOST cannot be used (${code ?? 'unknown'}). It must be an address of this machine.`;
  if (code === 'ECONNREFUSED') return 'The database at DATABASE_URL refuses connections. Is it running?';
  if (code === 'ENOTFOUND') return 'The host in DATABASE_URL is not known. Is it spelt right?';
  if (code !== undefined && FILE_ERROR_CODES.has(code)) {
    return (
      `The service could not start: ${message}. It keeps .env and .data/ in the current folder: start it in a folder ` +
      'of your own, or set SECRET_KEY, ADMIN_API_KEY and DATABASE_URL.'
    );
  }
  return `The service could not start: ${message}`;
}
