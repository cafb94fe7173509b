import { randomInt } from 'node:crypto';

/** @throws when there are no items */
export function pickOne<Item>(items: readonly Item[]): Item {
  const item = items[randomInt(Math.max(1, items.length))];
  if (item === undefined) throw new Error('There is nothing to choose from');
  return item;
}

/** Each actor has an address of its own, so that limits by address see many callers, as in production. */
export function randomAddress(): string {
  return `10.${randomInt(256)}.${randomInt(256)}.${randomInt(1, 255)}`;
}
