import { Injectable, type OnApplicationShutdown } from '@nestjs/common';
import { Database } from '../../foundation/database/database.js';
import type { EventType } from './event-types.js';

const LOOK_INTERVAL_MS = 1_000;

/** `$1`: the oldest seal that a waiting poll knows. Without new seals it reads one row. */
const LOOK = {
  name: 'events_look',
  text: `SELECT copied.seal::float8 AS copied, type FROM event_position AS copied
    LEFT JOIN LATERAL (SELECT DISTINCT type FROM events WHERE events.seal > $1) AS found ON copied.seal > $1`,
};

interface Wait {
  readonly types: readonly EventType[];
  /** The last seal that the poll has read. */
  seal: number;
  /** Ends the wait. @param isNews whether there may be something to read */
  end(isNews: boolean, error?: Error): void;
}

/**
 * Polls that wait for events of their types. All of this process share one look at the database in a second, and none
 * while no poll waits; each service has one waiting poll, so that waits cannot pile up.
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
   * @returns whether there may be something to read; false after the time, at a stop, and when the service waits anew
   */
  async wait(service: string, types: readonly EventType[], seal: number, timeoutMs: number): Promise<boolean> {
    if (this.isStopping) return false;
    this.waits.get(service)?.end(false);
    return new Promise((resolve, reject) => {
      const timeout = setTimeout(() => wait.end(false), timeoutMs);
      const wait: Wait = {
        types,
        seal,
        end: (isNews, error) => {
          clearTimeout(timeout);
          if (this.waits.get(service) === wait) this.waits.delete(service);
          if (error === undefined) resolve(isNews);
          else reject(error);
        },
      };
      this.waits.set(service, wait);
      this.timer ??= setTimeout(() => void this.look(), LOOK_INTERVAL_MS);
    });
  }

  private async look(): Promise<void> {
    const waits = [...this.waits.values()];
    if (waits.length > 0) {
      const oldest = Math.min(...waits.map(({ seal }) => seal));
      await this.database.rows<{ copied: number; type: EventType | null }>(LOOK, [oldest]).then(
        (rows) => {
          const news = new Set(rows.map(({ type }) => type));
          for (const wait of waits) {
            if (wait.types.some((type) => news.has(type))) wait.end(true);
            else wait.seal = rows[0]?.copied ?? wait.seal;
          }
        },
        (error: unknown) => waits.forEach((wait) => wait.end(false, error as Error)),
      );
    }
    this.timer = this.waits.size > 0 ? setTimeout(() => void this.look(), LOOK_INTERVAL_MS) : undefined;
  }
}
