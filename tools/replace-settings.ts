import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { replacedSettings, type FixedSettings } from '../src/foundation/config/limits.js';

// Replaces fixed settings of a service in another process: Node.js preloads this module there, and the settings are in the
// query of its URL.

const { search } = new URL(import.meta.url);
if (search !== '') Object.assign(replacedSettings, JSON.parse(decodeURIComponent(search.slice(1))));

const NO_LIMIT = { points: 1_000_000, seconds: 60 };

/** For programs that call the service much, from one address, on a busy machine. */
export const PATIENT_SETTINGS: Partial<FixedSettings> = {
  // Shorter ones would turn verdicts into 503.
  databaseConnectTimeoutMs: 20_000,
  databaseStatementTimeoutMs: 20_000,
  secondFactorLimitPerAccount: NO_LIMIT,
  secondFactorLimitPerAddress: NO_LIMIT,
  hashingBusyLimitPerAddress: NO_LIMIT,
  adminKeyLimitPerAddress: NO_LIMIT,
  mailLimitPerAddress: NO_LIMIT,
  mailLimitPerAccount: NO_LIMIT,
  linkLimitPerAddress: NO_LIMIT,
  enrolmentLimitPerAddress: NO_LIMIT,
  enrolmentLimit: NO_LIMIT,
};

/** @returns what NODE_OPTIONS of the service has to contain; its workers inherit it */
export function replaceSettings(settings: Partial<FixedSettings>): string {
  const module = pathToFileURL(resolve('dist/tools/replace-settings.js'));
  return `--import=${module.href}?${encodeURIComponent(JSON.stringify(settings))}`;
}
