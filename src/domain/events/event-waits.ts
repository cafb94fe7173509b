import { Injectable, type OnApplicationShutdown } from '@nestjs/common';
import { Database } from '../../foundation/database/database.js';
import type { EventType } from './event-types.js';

const QUERY_INTERVAL_MS = 1_000;
const MAX_STAGGER_INTERVAL_MS = 100;
/** Less than the interval of the job that copies events (5 s by default), so that batches do not pile up. */
const MAX_STAGGER_MS = 4_000;

/** `$1`: the oldest seal that a waiting poll has read. Without new seals the statement reads one row. */
const FIND_NEW_TYPES = {
  name: 'events_find_new_types',
  text: `SELECT copied.seal::float8 AS copied, type FROM event_position AS copied
    LEFT JOIN LATERAL (SELECT DISTINCT type FROM events WHERE events.seal > $1) AS found ON copied.seal > $1`,
};

interface Wait {
  readonly types: readonly EventType[];
  /** The last seal that the poll has read. */
  seal: number;
  /** Whether there are events of its types, so that it soon ends. */
  isDue: boolean;
  /** Ends the wait. @param mayHaveEvents whether there may be events to read */
  end(mayHaveEvents: boolean, error?: Error): void;
}

/**
 * Long polls that wait for events of their types. All long polls of this process share one query a second, and without
 * them there is none. Each service has one waiting poll at most, so that waits cannot pile up.
 */
@Injectable()
export class EventWaits implements OnApplicationShutdown {
  private readonly waits = new Map<string, Wait>();
  private timer: NodeJS.Timeout | undefined;
  private isStopping = false;

  constructor(private readonly database: Database) {}

  /** How many polls wait in this process. */
  get count(): number {
    return this.waits.size;
  }

  /** Answers every waiting poll at once, so that a stop waits for none. */
  stop(): void {
    this.isStopping = true;
    for (const wait of this.waits.values()) wait.end(false);
  }

  onApplicationShutdown(): void {
    this.stop();
    clearTimeout(this.timer);
  }

  /**
   * @param seal the last seal that was copied when the service's events were read
   * @returns whether there may be events to read; false after the timeout, at a stop, and when the service polls again
   */
  async wait(service: string, types: readonly EventType[], seal: number, timeoutMs: number): Promise<boolean> {
    if (this.isStopping) return false;
    this.waits.get(service)?.end(false);
    return new Promise((resolve, reject) => {
      const timeout = setTimeout(() => wait.end(wait.isDue), timeoutMs);
      const wait: Wait = {
        types,
        seal,
        isDue: false,
        end: (mayHaveEvents, error) => {
          clearTimeout(timeout);
          if (this.waits.get(service) === wait) this.waits.delete(service);
          if (error === undefined) resolve(mayHaveEvents);
          else reject(error);
        },
      };
      this.waits.set(service, wait);
      this.timer ??= setTimeout(() => void this.wakePolls(), QUERY_INTERVAL_MS);
    });
  }

  private async wakePolls(): Promise<void> {
    const waits = [...this.waits.values()].filter((wait) => !wait.isDue);
    if (waits.length > 0) {
      const oldest = Math.min(...waits.map(({ seal }) => seal));
      await this.database.rows<{ copied: number; type: EventType | null }>(FIND_NEW_TYPES, [oldest]).then(
        (rows) => {
          const newTypes = new Set(rows.map(({ type }) => type));
          for (const wait of waits) {
            wait.isDue = wait.types.some((type) => newTypes.has(type));
            if (!wait.isDue) wait.seal = rows[0]?.copied ?? wait.seal;
          }
          wakeStaggered(waits.filter(({ isDue }) => isDue));
        },
        (error: unknown) => waits.forEach((wait) => wait.end(false, error as Error)),
      );
    }
    this.timer = this.waits.size > 0 ? setTimeout(() => void this.wakePolls(), QUERY_INTERVAL_MS) : undefined;
  }
}

/** Not all at once: many services that read together would take the processors from logins. */
function wakeStaggered(waits: readonly Wait[]): void {
  const intervalMs = Math.min(MAX_STAGGER_INTERVAL_MS, MAX_STAGGER_MS / waits.length);
  for (const [index, wait] of waits.entries()) setTimeout(() => wait.end(true), index * intervalMs).unref();
}
