import { existsSync, readFileSync } from 'node:fs';

/** @returns the URL of a file of the package, which is above src/, dist/src/ and dist/service/ */
export function findPackageFile(path: string): URL {
  let folder = new URL('.', import.meta.url);
  while (!existsSync(new URL('package.json', folder))) folder = new URL('..', folder);
  return new URL(path, folder);
}

export function readPackageVersion(): string {
  return (JSON.parse(readFileSync(findPackageFile('package.json'), 'utf8')) as { version: string }).version;
}
