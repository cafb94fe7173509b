import { existsSync, readFileSync } from 'node:fs';

/** @returns the version in package.json, which is above src/ and above dist/src/ */
export function readPackageVersion(): string {
  let folder = new URL('.', import.meta.url);
  while (!existsSync(new URL('package.json', folder))) folder = new URL('..', folder);
  return (JSON.parse(readFileSync(new URL('package.json', folder), 'utf8')) as { version: string }).version;
}
