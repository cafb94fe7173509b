import { v4, v7, validate } from 'uuid';

/** A new UUIDv7 (RFC 9562): unique without asking the database, and sorted by the time it was made. */
export function createId(): string {
  return v7();
}

/** A new UUIDv4: several times cheaper than {@link createId}, since Node.js makes them in advance. */
export function createRandomId(): string {
  return v4();
}

export function isId(text: string): boolean {
  return validate(text);
}

/** @returns the UUID that 16 bytes stand for (RFC 9562 §4), or undefined when they stand for none */
export function toUuid(bytes: Buffer): string | undefined {
  const text = bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
  return validate(text) ? text : undefined;
}
