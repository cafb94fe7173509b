import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { replacedSettings, type FixedSettings } from '../src/config/limits.js';

// Replaces fixed settings of a service in another process: Node.js preloads this module there, and the settings are in the
// query of its URL.

const { search } = new URL(import.meta.url);
if (search !== '') Object.assign(replacedSettings, JSON.parse(decodeURIComponent(search.slice(1))));

/** @returns what NODE_OPTIONS of the service has to contain; its workers inherit it */
export function replaceSettings(settings: Partial<FixedSettings>): string {
  const module = pathToFileURL(resolve('dist/tools/replace-settings.js'));
  return `--import=${module.href}?${encodeURIComponent(JSON.stringify(settings))}`;
}
