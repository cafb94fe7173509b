import { createId } from '../common/ids.js';
import { isDatabaseFailure } from '../database/database-failure.js';
import type { Database, Statement } from '../database/database.js';
import { toErrorFields } from '../logging/log-line.js';
import type { Log } from '../logging/log.js';

const FLUSH_INTERVAL_MS = 30_000;
const BATCH_SIZE = 1_000;
/** Bounds the memory while the database is away. A key beyond it is recorded at its next use. */
const MAX_PENDING = 100_000;

interface Use {
  readonly at: Date;
  readonly service: string | null;
}

/** The last accepted use of each key, kept in memory and written in batches, not once per request. */
export class LastUses {
  private uses = new Map<string, Use>();
  private timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly database: Database,
    private readonly recordUses: Statement,
    private readonly log: Log,
  ) {}

  start(): void {
    this.timer = setInterval(() => void this.flush(), FLUSH_INTERVAL_MS).unref();
  }

  async stop(): Promise<void> {
    clearInterval(this.timer);
    await this.flush();
  }

  add(id: string, use: Use): void {
    this.uses.set(id, use);
  }

  /** A use that was reported later. The id is not known to exist. */
  addEarlier(id: string, use: Use): void {
    const known = this.uses.get(id);
    if (known ? known.at < use.at : this.uses.size < MAX_PENDING) this.uses.set(id, use);
  }

  /** First uses become audit events. What an outage left unwritten is retried at the next flush. */
  async flush(): Promise<void> {
    // Ordered by id, so that two replicas cannot deadlock.
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
    await this.database.rows(this.recordUses, [
      uses.map(([id]) => id),
      uses.map(([, { at }]) => at),
      uses.map(([, { service }]) => service),
      uses.map(() => createId()),
    ]);
  }

  private putBack(uses: [string, Use][]): void {
    for (const [id, use] of uses) {
      if (this.uses.size >= MAX_PENDING) return;
      if (!this.uses.has(id)) this.uses.set(id, use);
    }
  }
}
