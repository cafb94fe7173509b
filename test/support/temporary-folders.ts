import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const made: string[] = [];

/** @returns an empty folder; each-file.ts removes it when the test file ends */
export function makeFolder(purpose: string): string {
  const folder = mkdtempSync(join(tmpdir(), `platform-auth-${purpose}-`));
  made.push(folder);
  return folder;
}

export function removeFolders(): void {
  for (const folder of made.splice(0)) rmSync(folder, { recursive: true, force: true });
}
