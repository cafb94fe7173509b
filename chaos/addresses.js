import { randomInt } from 'node:crypto';

/** An address of its own for each life, so that limits by address see many callers, as they would outside. */
export function someAddress() {
  return `10.${randomInt(256)}.${randomInt(256)}.${randomInt(1, 255)}`;
}
