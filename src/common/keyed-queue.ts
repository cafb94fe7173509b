/**
 * A bounded queue that is fair between networks: each network that waits has a turn, and then the next one. An IPv6 /48
 * counts as one network, and shares its turns among its networks of /64.
 * While others wait, one network holds at most an eighth of the places. A full queue takes the newest place of the
 * network that holds most, and gives it to one that holds fewer.
 */
const SHARE = 8;

/** For which client something waits. */
export interface Turn {
  /** The narrowest first, as `toNetworks` returns them. */
  readonly networks: readonly string[];
  /** The address is known to the account. It goes first as long as nothing of its network waits or runs. */
  readonly isKnown: boolean;
}

interface Place<T> {
  readonly item: T;
  readonly turn: Turn;
}

export class KeyedQueue<T> {
  private readonly first = new Ring<Place<T>>();
  private readonly others = new Ring<Place<T>>();
  private readonly counts = new Map<string, number>();
  private takenFirst = 0;

  /** @param limit the most that may wait */
  constructor(readonly limit: number) {}

  get size(): number {
    return this.first.size + this.others.size;
  }

  /**
   * @param isIdle nothing of this network is being worked on
   * @returns the item that has no place: this one, or another one that lost its place to it; undefined when all have one
   */
  push(item: T, turn: Turn, isIdle = false): T | undefined {
    const network = getWidestNetwork(turn);
    const held = this.counts.get(network) ?? 0;
    const goesFirst = turn.isKnown && isIdle && held === 0;
    const isOverShare = held >= Math.max(1, this.limit / SHARE) && this.size > held;
    if (isOverShare) return item;
    const evicted = this.size < this.limit ? undefined : this.evict(held, goesFirst);
    if (this.size >= this.limit) return item;
    this.counts.set(network, held + 1);
    // Within a network, known and unknown clients take turns too: a shared address does not shut its owner out.
    const path = [...[...turn.networks].reverse(), turn.isKnown ? 'known' : 'unknown'];
    (goesFirst ? this.first : this.others).push({ item, turn }, path);
    return evicted;
  }

  /** Every eighth turn is for those that do not go first, so that they do not starve. */
  shift(): T | undefined {
    const isTurnOfOthers = this.takenFirst >= SHARE - 1 && this.others.size > 0;
    const goesFirst = this.first.size > 0 && !isTurnOfOthers;
    this.takenFirst = goesFirst ? this.takenFirst + 1 : 0;
    return this.release((goesFirst ? this.first : this.others).shift());
  }

  /** @returns at most `count` items, in turn */
  take(count: number): T[] {
    const taken: T[] = [];
    while (taken.length < count && this.size > 0) taken.push(this.shift() as T);
    return taken;
  }

  private evict(held: number, goesFirst: boolean): T | undefined {
    const [most, count] = [...this.counts].reduce((left, right) => (right[1] > left[1] ? right : left));
    if (count > held + 1) return this.release(this.others.pop(most) ?? this.first.pop(most));
    return goesFirst ? this.release(this.others.pop(this.others.newest)) : undefined;
  }

  private release(place: Place<T> | undefined): T | undefined {
    if (!place) return undefined;
    const network = getWidestNetwork(place.turn);
    const left = (this.counts.get(network) ?? 0) - 1;
    if (left > 0) this.counts.set(network, left);
    else this.counts.delete(network);
    return place.item;
  }
}

export function getWidestNetwork({ networks }: Turn): string {
  return networks[networks.length - 1] ?? 'unknown';
}

/** Keys take turns; below a key, the keys of the next level do. */
class Ring<T> {
  size = 0;
  private readonly items: T[] = [];
  private readonly parts = new Map<string, Ring<T>>();

  get newest(): string | undefined {
    return [...this.parts.keys()].at(-1);
  }

  push(item: T, [key, ...path]: string[]): void {
    this.size += 1;
    if (key === undefined) return void this.items.push(item);
    const part = this.parts.get(key) ?? new Ring<T>();
    this.parts.set(key, part);
    part.push(item, path);
  }

  /** The oldest item of the key whose turn it is. */
  shift(): T | undefined {
    const [next] = this.parts;
    if (!next) return this.take(this.items.shift());
    const [key, part] = next;
    const item = part.shift();
    this.parts.delete(key);
    if (part.size > 0) this.parts.set(key, part);
    return this.take(item);
  }

  /** The newest item of a key; without one, of the part that holds most. */
  pop(key?: string): T | undefined {
    const largest = key ?? [...this.parts].sort(([, left], [, right]) => right.size - left.size)[0]?.[0];
    const part = largest === undefined ? undefined : this.parts.get(largest);
    if (largest === undefined || !part) return key === undefined ? this.take(this.items.pop()) : undefined;
    const item = part.pop();
    if (part.size === 0) this.parts.delete(largest);
    return this.take(item);
  }

  private take(item: T | undefined): T | undefined {
    if (item !== undefined) this.size -= 1;
    return item;
  }
}
