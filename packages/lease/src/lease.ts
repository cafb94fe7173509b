/**
 * What the service shares with the verifiers that other services embed: the lease under which both answer from memory,
 * the feed of changes that renews it (change-feed.ts), and the cache of keys (key-cache.ts). It imports neither of
 * them. docs/revocation-lease.md and docs/decisions/0044-handing-the-lease-on.md have the rules and the proof, ../test/
 * the model of both.
 */
import type { Answer, ChangedKind } from './change-feed.js';

/** Reads a cached key again after a minute, which limits what a disabled trigger can hide. */
const MAX_KEY_AGE_MS = 60_000;

/** A cache of rows that the feed keeps true. */
export interface EvictionListener {
  readonly kind: ChangedKind;
  evict(id: string): void;
  evictAll(): void;
}

export interface LeaseTerms {
  /** 0 turns the cache off. */
  readonly leaseMs: number;
  /** How much longer the cache may be used while the database is unavailable (OUTAGE_GRACE_SECONDS). */
  readonly outageGraceMs: number;
  /**
   * Set by verifiers, whose entries end by both clocks. A lapse evicts nothing, because the cursor misses no change.
   */
  readonly keepsLapsedEntries?: boolean;
}

export interface Renewal extends Answer {
  /** How long the lease is held from when the poll was sent; by default as long as the terms say. */
  readonly freshForMs?: number;
}

export interface Clocks {
  /** Never jumps. */
  monotonic(): number;
  /** May jump; advances while the machine is suspended. */
  wall(): number;
}

export const SYSTEM_CLOCKS: Clocks = { monotonic: () => performance.now(), wall: () => Date.now() };

/** Shows that the feed reported no change between the read of a row and its caching. */
export interface Ticket {
  readonly version: number;
  readonly takenAtMs: number;
}

/**
 * The right to answer from a cache. Its term begins when a poll of the feed is sent, and a revoking call waits for a
 * whole term between its commit and its response (docs/revocation-lease.md has the proof).
 */
export class RevocationLease {
  /** Without the grace. */
  private heldUntilMs = -Infinity;
  private heldUntilWallMs = -Infinity;
  private graceMs = 0;
  private minTakenAtMs = -Infinity;
  private cursor: string | undefined;
  private readonly listeners: EvictionListener[] = [];
  /** Incremented by every change of a cached kind that the feed reports. */
  private version = 0;

  constructor(
    private readonly terms: LeaseTerms,
    private readonly clocks: Clocks,
  ) {}

  addListener(listener: EvictionListener): void {
    this.listeners.push(listener);
  }

  /** The wall clock can only shorten the term: a suspended machine misses changes, and its monotonic clock may stop. */
  get isHeld(): boolean {
    const { clocks, graceMs } = this;
    return clocks.monotonic() < this.heldUntilMs + graceMs && clocks.wall() < this.heldUntilWallMs + graceMs;
  }

  /** The rest of the lease without the grace, which is how long it can be handed on; 0 when the lease is over. */
  get remainingMs(): number {
    const { clocks } = this;
    const remainder = Math.min(this.heldUntilMs - clocks.monotonic(), this.heldUntilWallMs - clocks.wall());
    return Math.max(0, Math.floor(remainder));
  }

  /** To be called before a row is read. */
  takeTicket(): Ticket {
    return { version: this.version, takenAtMs: this.clocks.monotonic() };
  }

  /** Whether the feed has reported no change of a cached kind since the ticket was taken. */
  isCurrent(ticket: Ticket): boolean {
    return ticket.version === this.version;
  }

  /**
   * Measures the age at the last poll, so that keys do not age in an outage and OUTAGE_GRACE_SECONDS may exceed a
   * minute.
   */
  isStale(takenAtMs: number): boolean {
    return takenAtMs < this.minTakenAtMs;
  }

  /** By the monotonic clock. */
  isOlderThan(takenAtMs: number, ageMs: number): boolean {
    return this.clocks.monotonic() >= takenAtMs + ageMs;
  }

  /** @param poll called with the cursor of the last answer; undefined the first time */
  async renew(poll: (cursor: string | undefined) => Promise<Renewal>): Promise<void> {
    const { leaseMs, outageGraceMs, keepsLapsedEntries = false } = this.terms;
    const polledAtMs = this.clocks.monotonic();
    const polledAtWallMs = this.clocks.wall();
    const { cursor, reset, changes, freshForMs = leaseMs } = await poll(this.cursor);
    if (reset || (!keepsLapsedEntries && !this.isHeld)) this.evictAll();
    else for (const { kind, id } of changes) this.evict(kind, id);
    this.cursor = cursor;
    this.heldUntilMs = polledAtMs + freshForMs;
    this.heldUntilWallMs = polledAtWallMs + freshForMs;
    this.graceMs = outageGraceMs;
    this.minTakenAtMs = polledAtMs + leaseMs - MAX_KEY_AGE_MS;
  }

  /** To be called when a poll is refused, which is not an outage. The next renewal brings the grace back. */
  endGrace(): void {
    this.graceMs = 0;
  }

  evict(kind: ChangedKind, id: string): void {
    for (const listener of this.listeners) {
      if (listener.kind !== kind) continue;
      this.version += 1;
      listener.evict(id);
    }
  }

  private evictAll(): void {
    this.version += 1;
    for (const listener of this.listeners) listener.evictAll();
  }
}
