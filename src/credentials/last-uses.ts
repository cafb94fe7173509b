import { newId } from '../common/ids.js';
import type { Database, Statement } from '../database/database.js';
import { errorFields } from '../logging/log-line.js';
import type { Log } from '../logging/log.js';

const FLUSH_MS = 30_000;

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

  /** One statement for all of them. First uses become part of the record. */
  async flush(): Promise<void> {
    if (this.uses.size === 0) return;
    // In the order of their ids, so that two replicas cannot wait for each other.
    const uses = [...this.uses].sort(([left], [right]) => (left < right ? -1 : 1));
    this.uses = new Map();
    const columns = [
      uses.map(([id]) => id),
      uses.map(([, { at }]) => at),
      uses.map(([, { service }]) => service),
      uses.map(() => newId()),
    ];
    try {
      await this.database.rows(this.record, columns);
    } catch (error) {
      this.log.warning('last_used_not_recorded', { count: uses.length, error: errorFields(error) });
    }
  }
}
