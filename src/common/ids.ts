import { v4, v7, validate } from 'uuid';

/** Creates a UUIDv7 (RFC 9562): sorted by creation time, and unique without the database. */
export function createId(): string {
  return v7();
}

/** Creates a UUIDv4: several times cheaper than {@link createId}, because Node.js generates them in advance. */
export function createRandomId(): string {
  return v4();
}

export function isId(text: string): boolean {
  return validate(text);
}

/** @returns the UUID that 16 bytes encode (RFC 9562 §4); undefined when they do not encode one */
export function toUuid(bytes: Buffer): string | undefined {
  const text = bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
  return validate(text) ? text : undefined;
}
