import { v7, validate } from 'uuid';

/** A new UUIDv7 (RFC 9562): unique without asking the database, and sorted by the time it was made. */
export function newId(): string {
  return v7();
}

export function isId(text: string): boolean {
  return validate(text);
}
