// A bounded queue that is fair between networks (round robin). An IPv6 /48 counts as one network, and its turns are
// shared among its networks of /64. While other networks wait, one network holds at most an eighth of the entries. A
// full queue evicts the newest entry of the network that holds most, if the new entry's network holds at least two fewer;
// else a preferred entry evicts a regular one of the network that is served last.

const FAIR_SHARE = 8;

export interface Ticket {
  /** The client's networks as `toNetworks` returns them, the narrowest first. */
  readonly networks: readonly string[];
  /** Whether the account was used from this address, which gives priority to the network's only entry. */
  readonly isKnown: boolean;
}

interface Entry<T> {
  readonly item: T;
  readonly ticket: Ticket;
}

export class FairQueue<T> {
  private readonly preferred = new RoundRobin<Entry<T>>();
  private readonly regular = new RoundRobin<Entry<T>>();
  private readonly counts = new Map<string, number>();
  private preferredInRow = 0;

  constructor(readonly limit: number) {}

  get size(): number {
    return this.preferred.size + this.regular.size;
  }

  /**
   * @param isIdle whether no item of the ticket's network is in progress
   * @returns the rejected item: this one, or one that was evicted for it
   */
  push(item: T, ticket: Ticket, isIdle = false): T | undefined {
    const network = getWidestNetwork(ticket);
    const held = this.counts.get(network) ?? 0;
    const isPreferred = ticket.isKnown && isIdle && held === 0;
    const isOverShare = held >= Math.max(1, this.limit / FAIR_SHARE) && this.size > held;
    if (isOverShare) return item;
    const evicted = this.size < this.limit ? undefined : this.evict(held, isPreferred);
    if (this.size >= this.limit) return item;
    this.counts.set(network, held + 1);
    // Within a network, known and unknown clients alternate, so that an attacker at a shared address does not lock out
    // the owner of the account.
    const path = [...[...ticket.networks].reverse(), ticket.isKnown ? 'known' : 'unknown'];
    (isPreferred ? this.preferred : this.regular).push({ item, ticket }, path);
    return evicted;
  }

  /** Takes a regular entry after seven preferred ones, so that regular entries do not starve. */
  shift(): T | undefined {
    const isRegularTurn = this.preferredInRow >= FAIR_SHARE - 1 && this.regular.size > 0;
    const isPreferred = this.preferred.size > 0 && !isRegularTurn;
    this.preferredInRow = isPreferred ? this.preferredInRow + 1 : 0;
    return this.release((isPreferred ? this.preferred : this.regular).shift());
  }

  take(count: number): T[] {
    const taken: T[] = [];
    while (taken.length < count && this.size > 0) taken.push(this.shift() as T);
    return taken;
  }

  private evict(held: number, isPreferred: boolean): T | undefined {
    const [most, count] = [...this.counts].reduce((left, right) => (right[1] > left[1] ? right : left));
    if (count > held + 1) return this.release(this.regular.pop(most) ?? this.preferred.pop(most));
    return isPreferred ? this.release(this.regular.pop(this.regular.lastInTurn)) : undefined;
  }

  private release(entry: Entry<T> | undefined): T | undefined {
    if (!entry) return undefined;
    const network = getWidestNetwork(entry.ticket);
    const left = (this.counts.get(network) ?? 0) - 1;
    if (left > 0) this.counts.set(network, left);
    else this.counts.delete(network);
    return entry.item;
  }
}

export function getWidestNetwork({ networks }: Ticket): string {
  return networks[networks.length - 1] ?? 'unknown';
}

/** Serves keys in turn, and within a key the keys of the next level, down to single items. */
class RoundRobin<T> {
  size = 0;
  private readonly items: T[] = [];
  private readonly parts = new Map<string, RoundRobin<T>>();

  get lastInTurn(): string | undefined {
    return [...this.parts.keys()].at(-1);
  }

  push(item: T, [key, ...path]: string[]): void {
    this.size += 1;
    if (key === undefined) return void this.items.push(item);
    const part = this.parts.get(key) ?? new RoundRobin<T>();
    this.parts.set(key, part);
    part.push(item, path);
  }

  /** The oldest item of the key whose turn it is. */
  shift(): T | undefined {
    const [next] = this.parts;
    if (!next) return this.countRemoved(this.items.shift());
    const [key, part] = next;
    const item = part.shift();
    this.parts.delete(key);
    if (part.size > 0) this.parts.set(key, part);
    return this.countRemoved(item);
  }

  /** Removes the newest item of a key; without a key, that of the largest part. */
  pop(key?: string): T | undefined {
    const largest = key ?? [...this.parts].sort(([, left], [, right]) => right.size - left.size)[0]?.[0];
    const part = largest === undefined ? undefined : this.parts.get(largest);
    if (largest === undefined || !part) return key === undefined ? this.countRemoved(this.items.pop()) : undefined;
    const item = part.pop();
    if (part.size === 0) this.parts.delete(largest);
    return this.countRemoved(item);
  }

  private countRemoved(item: T | undefined): T | undefined {
    if (item !== undefined) this.size -= 1;
    return item;
  }
}
