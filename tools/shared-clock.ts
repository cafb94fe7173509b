import { existsSync, readdirSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Variables } from '../src/foundation/config/environment.js';
import type { Cleanup } from './cleanup.js';
import { makeTemporaryFolder } from './postgres.js';

const ROOT = '/usr/lib';

/** The library that changes the clock of a process; undefined when it is not installed. */
export const FAKETIME = findLibrary();

export function whyNoFaketime(): string | undefined {
  return FAKETIME === undefined ? 'libfaketime is not installed' : undefined;
}

function findLibrary(): string | undefined {
  const folders = existsSync(ROOT) ? readdirSync(ROOT).map((name) => join(ROOT, name)) : [];
  return folders.map((folder) => join(folder, 'faketime', 'libfaketime.so.1')).find((file) => existsSync(file));
}

/** A clock that programs share. It runs, and a jump reaches each of them within a second. */
export class SharedClock {
  private readonly file: string;

  constructor(cleanup: Cleanup) {
    this.file = join(makeTemporaryFolder(cleanup, 'clock'), 'offset');
    this.set(0);
  }

  /** @param seconds ahead of the clock of this machine; negative when it is behind */
  set(seconds: number): void {
    const text = `${seconds < 0 ? '' : '+'}${seconds}`;
    // Renamed, because a program that reads an empty file would have no time.
    writeFileSync(`${this.file}.new`, text, { mode: 0o644 });
    renameSync(`${this.file}.new`, this.file);
  }

  /** The environment of a program with this clock. */
  get variables(): Variables {
    return {
      LD_PRELOAD: FAKETIME,
      FAKETIME_TIMESTAMP_FILE: this.file,
      FAKETIME_CACHE_DURATION: '1',
      DONT_FAKE_MONOTONIC: '1',
    };
  }
}
