// What the process does where no other code decides: with an error that was not caught, and with the signal at which
// Node.js opens a debugger. A fleet or the supervisor replaces the process, because its state is not known any more.
import type { Environment } from '../foundation/config/environment.js';
import { toErrorFields } from '../foundation/logging/log.js';
import { createConsoleLog } from './start-report.js';

export function installLastResort(environment: Environment): void {
  const log = createConsoleLog(environment);
  // Also called for a rejection that was not handled. Without it, Node.js would print the message, which may quote what
  // a caller sent (ASVS 16.5.4).
  process.on('uncaughtException', (error, reason) => {
    log.error('process_failed', { reason, error: toErrorFields(error) });
    process.exit(1);
  });
  // A listener replaces the debugger of Node.js, also in versions without `--disable-sigusr1` (ASVS 13.4.2).
  process.on('SIGUSR1', (signal) => log.warn('signal_ignored', { signal }));
}
