import { randomInt } from 'node:crypto';

/** A random client address for each actor, so that limits by address see many callers, as in production. */
export function someAddress() {
  return `10.${randomInt(256)}.${randomInt(256)}.${randomInt(1, 255)}`;
}
