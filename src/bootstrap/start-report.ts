// What a start tells the operator and systemd. Its log lines go to the console only, so that a failed start need not
// wait for a delivery.
import { execFile } from 'node:child_process';
import { StartTimeoutError, StartWatch } from '../foundation/common/start-watch.js';
import { inspectEnvFile } from '../foundation/config/env-file.js';
import { InvalidEnvironmentError, type Environment, type Variables } from '../foundation/config/environment.js';
import { listWeakSettings } from '../foundation/config/weak-settings.js';
import { isMasterKeyShared, isSameSecret } from '../foundation/crypto/secret.js';
import { toErrorFields, Log } from '../foundation/logging/log.js';
import { isMailEnabled } from '../domain/mail/mail-transport.js';
import { describeIgnoredVariables } from './ignored-variables.js';
import { onStopSignal } from './stop-signal.js';

const FILE_ERROR_CODES = new Set(['EACCES', 'EPERM', 'EROFS', 'EISDIR']);
const SYSTEMD_PROGRAM = 'systemd-notify';
const SYSTEMD_TIMEOUT_MS = 5_000;

/** The first worker of a fleet exited before it listened. That worker has printed the reason. */
export class WorkerStartError extends Error {
  override readonly name = 'WorkerStartError';
}

export function watchStart(environment: Environment): StartWatch {
  const log = createConsoleLog(environment);
  return new StartWatch(environment.startTimeoutSeconds * 1_000, ({ step, seconds, reason }) =>
    log.warn('start_waits', { waiting_for: step, waited_seconds: seconds, reason }),
  );
}

/**
 * Warns of variables that do nothing, share too much or are weak, of an `.env` that other users may read, and of routes
 * that this configuration lacks.
 */
export function reportSettings(environment: Environment, variables: Variables): void {
  const reason = describeIgnoredVariables(variables);
  const log = createConsoleLog(environment);
  if (reason !== undefined) log.warn('variables_ignored', { reason });
  if (hasSharedMasterKey(environment))
    log.warn('master_key_shared', {
      reason:
        'there is no MASTER_KEY apart from the SECRET_KEY, or one of their former values is shared: a service that ' +
        'holds the SECRET_KEY can make login challenges, which stand for a password, and with a dump read TOTP ' +
        'secrets. Set MASTER_KEY and end its rotation (docs/operations/keys.md), or sign access tokens with ES256',
    });
  if (isMasterKeyMissing(environment))
    log.warn('master_key_shared', {
      reason:
        'MASTER_KEY is not set, so SECRET_KEY stands in for it. If .env had a MASTER_KEY, write it back: without it, ' +
        'TOTP secrets and signing keys cannot be decrypted',
    });
  if (environment.nodeEnv !== 'production')
    for (const flaw of inspectEnvFile('.env')) log.warn('env_file_flawed', { reason: flaw });
  for (const { variable, detail } of listWeakSettings(environment))
    log.warn('setting_is_weak', { reason: `${variable}: ${detail}` });
  if (!isMailEnabled(environment))
    log.info('mail_is_off', {
      reason: 'MAIL_URL is not set: password reset, verification and change of an address by e-mail answer 404',
    });
}

/** Under HS256 dependents hold the SECRET_KEY. Under ES256 only this service does. */
export function hasSharedMasterKey(environment: Environment): boolean {
  const { nodeEnv, accessTokenAlgorithm } = environment;
  return nodeEnv === 'production' && accessTokenAlgorithm === 'HS256' && isMasterKeyShared(environment);
}

/** In development a lost MASTER_KEY would go unnoticed, because no new one is generated beside a SECRET_KEY. */
export function isMasterKeyMissing({ nodeEnv, masterKey, secretKey }: Environment): boolean {
  return nodeEnv === 'development' && isSameSecret(masterKey, secretKey);
}

/** @returns why the start failed, without a secret */
export function describeStartFailure(error: unknown): string {
  if (error instanceof InvalidEnvironmentError || error instanceof WorkerStartError) return error.message;
  if (error instanceof StartTimeoutError) return `The service could not start: ${error.message}. Check DATABASE_URL.`;
  const { code, port, message, variable } = error as NodeJS.ErrnoException & { port?: number; variable?: string };
  if (code === 'EADDRINUSE' && (variable === 'METRICS_PORT' || variable === 'INTERNAL_PORT'))
    return `Port ${port ?? ''} is taken: choose another ${variable}.`;
  if (code === 'EADDRINUSE')
    return `Port ${port ?? ''} is taken: the service may be running already. Stop it, or choose another port: PORT=7702 npm start`;
  if (code === 'EACCES' && variable !== undefined && port !== undefined && port < 1_024)
    return `${variable} ${port} needs more rights than this user has: choose one above 1023.`;
  if (variable !== undefined)
    return `${variable === 'METRICS_PORT' ? 'METRICS_HOST' : 'HOST'} cannot be used (${code ?? 'unknown'}). It must be an address of this machine.`;
  if (code === 'ECONNREFUSED') return 'The database at DATABASE_URL refuses connections. Is it running?';
  if (code === 'ENOTFOUND') return 'The host in DATABASE_URL is not known. Is it spelt right?';
  const advice =
    '. It keeps .env and .data/ in the current folder: start it in a folder of your own, or set SECRET_KEY, ' +
    'ADMIN_API_KEY and DATABASE_URL.';
  return `The service could not start: ${message}${FILE_ERROR_CODES.has(code ?? '') ? advice : ''}`;
}

/**
 * Tells systemd that the service is ready, and later that it stops (`Type=notify`). Node.js has no Unix datagrams, so
 * systemd-notify sends the message, and the unit needs `NotifyAccess=all`.
 */
export function reportToSystemd(environment: Environment): void {
  const log = createConsoleLog(environment);
  const notify = (state: string): void => {
    execFile(SYSTEMD_PROGRAM, [state], { timeout: SYSTEMD_TIMEOUT_MS }, (error) => {
      if (error) log.warn('systemd_not_notified', { error: toErrorFields(error) });
    });
  };
  notify('READY=1');
  onStopSignal(() => notify('STOPPING=1'));
}

export function createConsoleLog(environment: Environment): Log {
  return new Log({ ...environment, loggingServiceUrl: undefined });
}
