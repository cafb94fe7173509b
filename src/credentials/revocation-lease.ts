import type { Answer, CredentialKind } from './change-feed.js';

/** A trigger that does not fire hides a change: after a minute each cached key is read again. */
const MAX_KEY_AGE_MS = 60_000;

/** A cache of what the database said. */
export interface EvictionListener {
  readonly kind: CredentialKind;
  evict(id: string): void;
  evictAll(): void;
}

export interface LeaseTerms {
  /** 0: nothing may be answered from the cache. */
  readonly leaseMs: number;
  /** How much longer an operator accepts answers from the cache while the database is away. */
  readonly outageGraceMs: number;
}

/** Both in milliseconds. */
export interface Clocks {
  /** Never jumps. */
  monotonic(): number;
  /** May jump, and goes on while the machine sleeps. */
  wall(): number;
}

export const SYSTEM_CLOCKS: Clocks = { monotonic: () => performance.now(), wall: () => Date.now() };

/** Proves that nothing changed between a read and the moment at which its row is cached. */
export interface Ticket {
  readonly version: number;
  readonly takenAtMs: number;
}

/**
 * The right to answer from a cache. It lasts a fixed time from the moment at which this replica last asked the database
 * what has changed, and got an answer. A call that revokes waits that time out between its commit and its answer
 * (docs/decisions/0033 has the argument).
 */
export class RevocationLease {
  private heldUntilMs = -Infinity;
  private heldUntilWallMs = -Infinity;
  private minTakenAtMs = -Infinity;
  private cursor: string | undefined;
  private readonly listeners: EvictionListener[] = [];
  /** Grows with every change that was heard of. */
  private version = 0;

  constructor(
    private readonly terms: LeaseTerms,
    private readonly clocks: Clocks,
  ) {}

  add(listener: EvictionListener): void {
    this.listeners.push(listener);
  }

  /** The wall clock can only shorten it: a machine that slept did not hear of what happened meanwhile. */
  get isHeld(): boolean {
    return this.clocks.monotonic() < this.heldUntilMs && this.clocks.wall() < this.heldUntilWallMs;
  }

  /** To be taken before a row is read. */
  ticket(): Ticket {
    return { version: this.version, takenAtMs: this.clocks.monotonic() };
  }

  /** Whether no change was heard of since the ticket was taken. */
  isCurrent(ticket: Ticket): boolean {
    return ticket.version === this.version;
  }

  /**
   * Whether a row that was read under the ticket is to be read again. Measured from the last question, not from now: while
   * the database is away keys do not age, so that OUTAGE_GRACE_SECONDS may be longer than a minute.
   */
  isStale(takenAtMs: number): boolean {
    return takenAtMs < this.minTakenAtMs;
  }

  /**
   * Asks the database once, and holds the lease anew from the moment of the question, not of the answer.
   * @param ask is given the cursor of the last answer; undefined when there was none
   */
  async renew(ask: (cursor: string | undefined) => Promise<Answer>): Promise<void> {
    const { leaseMs, outageGraceMs } = this.terms;
    const askedAtMs = this.clocks.monotonic();
    const untilWallMs = this.clocks.wall() + leaseMs + outageGraceMs;
    const { cursor, reset, changes } = await ask(this.cursor);
    if (reset || !this.isHeld) this.evictAll();
    else for (const { kind, id } of changes) this.evict(kind, id);
    this.cursor = cursor;
    this.heldUntilMs = askedAtMs + leaseMs + outageGraceMs;
    this.heldUntilWallMs = untilWallMs;
    this.minTakenAtMs = askedAtMs + leaseMs - MAX_KEY_AGE_MS;
  }

  private evict(kind: CredentialKind, id: string): void {
    this.version += 1;
    for (const listener of this.listeners) if (listener.kind === kind) listener.evict(id);
  }

  private evictAll(): void {
    this.version += 1;
    for (const listener of this.listeners) listener.evictAll();
  }
}
