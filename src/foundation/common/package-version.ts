import { existsSync, readFileSync } from 'node:fs';

/**
 * Searches upward for package.json, because this module runs from src/, dist/src/ and dist/service/.
 * @returns the URL of a file of the package
 */
export function findPackageFile(path: string): URL {
  let folder = new URL('.', import.meta.url);
  while (!existsSync(new URL('package.json', folder))) folder = new URL('..', folder);
  return new URL(path, folder);
}

export function readPackageVersion(): string {
  return (JSON.parse(readFileSync(findPackageFile('package.json'), 'utf8')) as { version: string }).version;
}
