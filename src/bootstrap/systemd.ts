import { execFile } from 'node:child_process';
import type { Environment } from '../config/environment.js';
import { toErrorFields } from '../logging/log-line.js';
import { Log } from '../logging/log.js';

const PROGRAM = 'systemd-notify';
const TIMEOUT_MS = 5_000;
const SIGNALS = ['SIGTERM', 'SIGINT'] as const;

/**
 * Tells systemd that the service is ready, and later that it stops (`Type=notify`). systemd's own program sends it: the
 * socket takes datagrams, and Node.js has none of the Unix domain. Hence `NotifyAccess=all` in the unit.
 */
export function reportToSystemd(environment: Environment): void {
  const log = new Log({ ...environment, loggingServiceUrl: undefined });
  const notify = (state: string): void => {
    execFile(PROGRAM, [state], { timeout: TIMEOUT_MS }, (error) => {
      if (error) log.warn('systemd_not_notified', { error: toErrorFields(error) });
    });
  };
  notify('READY=1');
  for (const signal of SIGNALS) process.once(signal, () => notify('STOPPING=1'));
}
