import type { ChangedKind } from '../../../packages/lease/src/change-feed.js';
import type { RevocationLease } from '../../../packages/lease/src/lease.js';
import { pause, type Runtime } from './runtime.js';
import type { Watch } from './watch.js';

/** Checks in flight: bounded, because a reset makes every connection due. */
const MAX_CHECKS = 16;
/** The pause before the next try, after a question without a verdict. */
const MIN_PAUSE_MS = 1_000;
const PAUSE_JITTER_MS = 1_000;
const KINDS = ['app', 'node', 'session', 'user'] as const satisfies readonly ChangedKind[];

export interface Watched {
  /** Kinds and ids, such as `node 0198…`, whose change may have ended the credential. */
  readonly changes: readonly string[];
  /** @returns undefined when the answer is not a verdict */
  readonly isLive: () => Promise<boolean | undefined>;
  readonly onEnded: () => void;
}

interface Connection extends Watched {
  isChecking: boolean;
  /** Whether a change came since the last question was sent. */
  isDue: boolean;
}

/**
 * Tells long-lived connections that their credential has ended. Each change is only a reason to ask, because a new
 * e-mail address and the rotation of a key are changes too.
 */
export class Endings {
  private readonly byChange = new Map<string, Set<Connection>>();
  private readonly waiting: Connection[] = [];
  private checks = 0;

  /** @param report receives an error that `onEnded` threw */
  constructor(
    private readonly runtime: Runtime,
    lease: RevocationLease,
    private readonly report: (error: unknown) => void,
  ) {
    for (const kind of KINDS) {
      const evict = (id: string): void => this.checkAll(this.byChange.get(`${kind} ${id}`));
      const evictAll = (): void => {
        for (const [change, connections] of this.byChange) if (change.startsWith(kind)) this.checkAll(connections);
      };
      lease.addListener({ kind, evict, evictAll });
    }
  }

  add(watched: Watched): Watch {
    const connection = { ...watched, isChecking: false, isDue: false };
    for (const change of watched.changes) {
      const connections = this.byChange.get(change) ?? new Set();
      this.byChange.set(change, connections.add(connection));
    }
    // The credential may have ended since its request was accepted.
    this.checkAll([connection]);
    return { close: () => this.remove(connection) };
  }

  private remove(connection: Connection): void {
    for (const change of connection.changes) {
      const connections = this.byChange.get(change);
      connections?.delete(connection);
      if (connections?.size === 0) this.byChange.delete(change);
    }
  }

  private isWatched(connection: Connection): boolean {
    return connection.changes.some((change) => this.byChange.get(change)?.has(connection));
  }

  private checkAll(connections: Iterable<Connection> = []): void {
    for (const connection of connections) {
      connection.isDue = true;
      if (connection.isChecking) continue;
      connection.isChecking = true;
      this.waiting.push(connection);
    }
    while (this.checks < MAX_CHECKS) {
      const next = this.waiting.shift();
      if (!next) return;
      this.checks += 1;
      void this.check(next).finally(() => {
        this.checks -= 1;
        this.checkAll();
      });
    }
  }

  private async check(connection: Connection): Promise<void> {
    try {
      while (connection.isDue && this.isWatched(connection)) {
        connection.isDue = false;
        const isLive = await connection.isLive();
        if (isLive === undefined) {
          connection.isDue = true;
          await pause(this.runtime, MIN_PAUSE_MS + this.runtime.random() * PAUSE_JITTER_MS, true);
        }
        if (isLive !== false || !this.isWatched(connection)) continue;
        this.remove(connection);
        connection.onEnded();
      }
    } catch (error) {
      this.report(error);
    } finally {
      connection.isChecking = false;
    }
  }
}
