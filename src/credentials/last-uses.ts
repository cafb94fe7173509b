import { createId } from '../common/ids.js';
import { isDatabaseFailure } from '../database/database-failure.js';
import type { Database, Statement } from '../database/database.js';
import { toErrorFields } from '../logging/log-line.js';
import type { Log } from '../logging/log.js';

const FLUSH_MS = 30_000;
const BATCH_SIZE = 1_000;
/** So many wait for a database that is away; the others are noted at their next use. */
const MOST_HELD = 100_000;

interface Use {
  readonly at: Date;
  readonly service: string | null;
}

/** When keys were last accepted, and for whom: kept in memory and written down in batches, not once a request. */
export class LastUses {
  private uses = new Map<string, Use>();
  private timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly database: Database,
    private readonly record: Statement,
    private readonly log: Log,
  ) {}

  start(): void {
    this.timer = setInterval(() => void this.flush(), FLUSH_MS).unref();
  }

  async stop(): Promise<void> {
    clearInterval(this.timer);
    await this.flush();
  }

  add(id: string, use: Use): void {
    this.uses.set(id, use);
  }

  /** First uses become part of the record. What an outage keeps from being written waits for the next time. */
  async flush(): Promise<void> {
    // In the order of their ids, so that two replicas cannot wait for each other.
    const uses = [...this.uses].sort(([left], [right]) => (left < right ? -1 : 1));
    this.uses = new Map();
    for (let start = 0; start < uses.length; start += BATCH_SIZE) {
      const batch = uses.slice(start, start + BATCH_SIZE);
      try {
        await this.write(batch);
      } catch (error) {
        const isOutage = isDatabaseFailure(error);
        const unwritten = isOutage ? uses.slice(start) : batch;
        this.log.warn('last_used_not_recorded', { count: unwritten.length, error: toErrorFields(error) });
        if (!isOutage) continue;
        this.putBack(unwritten);
        return;
      }
    }
  }

  private async write(uses: [string, Use][]): Promise<void> {
    await this.database.rows(this.record, [
      uses.map(([id]) => id),
      uses.map(([, { at }]) => at),
      uses.map(([, { service }]) => service),
      uses.map(() => createId()),
    ]);
  }

  private putBack(uses: [string, Use][]): void {
    for (const [id, use] of uses) {
      if (this.uses.size >= MOST_HELD) return;
      if (!this.uses.has(id)) this.uses.set(id, use);
    }
  }
}
