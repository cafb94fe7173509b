import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = '/usr/lib';

/** The path of libfaketime, which changes the clock of a process; undefined when it is not installed. */
export const FAKETIME = findLibrary();

/** For `whyNot` of a scenario. */
export function whyNoFaketime(): string | undefined {
  return FAKETIME === undefined ? 'libfaketime is not installed' : undefined;
}

function findLibrary(): string | undefined {
  const folders = existsSync(ROOT) ? readdirSync(ROOT).map((name) => join(ROOT, name)) : [];
  return folders.map((folder) => join(folder, 'faketime', 'libfaketime.so.1')).find((file) => existsSync(file));
}
