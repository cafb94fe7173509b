import { timingSafeEqual } from 'node:crypto';
import { readFileSync } from 'node:fs';

/** This service's own key for the authentication service: a text, or the text of a file, such as a mounted Secret. */
export class OwnKey {
  /** Private at run time too, so that no log prints it. */
  #key: string;
  /** Counts the keys, to tell whether a refused one was replaced meanwhile. */
  private versionOfKey = 0;

  /** @param file into which a rotation writes the next key */
  constructor(
    private readonly appId: string,
    key: string,
    private readonly file?: string,
  ) {
    this.#key = key;
  }

  get key(): string {
    return this.#key;
  }

  get version(): number {
    return this.versionOfKey;
  }

  toHeaders(): Record<string, string> {
    return { 'X-Platform-App-Id': this.appId, 'X-Platform-App-Key': this.#key };
  }

  /** @returns whether there is another key than the refused one */
  replaceRefused(version: number): boolean {
    if (this.versionOfKey !== version) return true;
    const found = this.file === undefined ? undefined : readKeyFile(this.file);
    if (found === undefined || isSame(found, this.#key)) return false;
    this.#key = found;
    this.versionOfKey += 1;
    return true;
  }
}

function isSame(one: string, other: string): boolean {
  return one.length === other.length && timingSafeEqual(Buffer.from(one), Buffer.from(other));
}

const APP_KEY = /^pa_app_[A-Za-z0-9_-]{1,4000}$/;

export function isAppKey(value: unknown): value is string {
  return typeof value === 'string' && APP_KEY.test(value);
}

/** @returns undefined when the file cannot be read, or holds anything but a key and a line break */
export function readKeyFile(path: string): string | undefined {
  try {
    const key = readFileSync(path, 'utf8').replace(/\r?\n$/, '');
    return isAppKey(key) ? key : undefined;
  } catch {
    return undefined;
  }
}
