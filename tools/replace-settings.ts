// Replaces fixed settings of a service in another process, where Node.js preloads this module. The query of its URL
// holds the settings.
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { replacedSettings, type FixedSettings } from '../src/foundation/config/limits.js';

const { search } = new URL(import.meta.url);
if (search !== '') Object.assign(replacedSettings, JSON.parse(decodeURIComponent(search.slice(1))));

const NO_LIMIT = { points: 1_000_000, seconds: 60 };

/** For programs that call the service often, from one address, on a busy machine. */
export const PATIENT_SETTINGS: Partial<FixedSettings> = {
  // Shorter timeouts would turn verdicts into 503.
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

/** @returns a part of NODE_OPTIONS for the service; its workers inherit it */
export function replaceSettings(settings: Partial<FixedSettings>): string {
  const module = pathToFileURL(resolve('dist/tools/replace-settings.js'));
  return `--import=${module.href}?${encodeURIComponent(JSON.stringify(settings))}`;
}
