import { insertAuditEvents } from '../audit/audit-events.js';
import { createId } from '../common/ids.js';
import type { AuditEventName } from '../common/security-events.js';
import { isDatabaseFailure } from '../database/database-failure.js';
import type { Database, Statement } from '../database/database.js';
import { toErrorFields } from '../logging/log-line.js';
import type { Log } from '../logging/log.js';
import type { KeyTableName } from './key-ends.js';

const FLUSH_INTERVAL_MS = 30_000;
const BATCH_SIZE = 1_000;
/** Bounds the memory while the database is away. A key beyond it is recorded at its first use after that. */
const MAX_PENDING = 100_000;

interface Use {
  readonly at: Date;
  readonly service: string | null;
}

/** The last accepted use of each key, kept in memory and written in batches instead of once per request. */
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

  /** A use that a verifier reports later. No key needs to have this id. */
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

/** A table whose keys are accepted at a door. Its fields are constants in the code, never input: they become SQL. */
export interface UsedKeyTable {
  readonly name: KeyTableName;
  readonly door: 'node' | 'app' | 'admin';
  /** The audit event of the first use. */
  readonly event: AuditEventName;
  /** SQL for the details of that event. */
  readonly details: string;
  readonly targetColumn?: string;
}

/**
 * Locks the rows first, so that two replicas that race to record the first use of a key write one audit row. Reports of a
 * service that is not the key's target are ignored: it cannot have accepted the key. An earlier use does not replace a later
 * one, unless that one is more than an hour in the future: a replica whose clock was ahead recorded it.
 */
export function buildRecordUses({ name, door, event, details, targetColumn }: UsedKeyTable): Statement {
  const isForTarget = targetColumn ? `AND (used.service IS NULL OR used.service = holder.${targetColumn})` : '';
  const text = `WITH used AS (SELECT * FROM unnest($1::uuid[], $2::timestamptz[], $3::text[], $4::uuid[])
                 AS used (id, at, service, event_id)),
               locked AS (SELECT id, last_used_at FROM ${name} WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE),
               written AS (
                 UPDATE ${name} AS holder SET last_used_at = used.at, last_used_for = used.service
                 FROM locked JOIN used ON used.id = locked.id WHERE holder.id = locked.id
                   AND (locked.last_used_at IS NULL OR locked.last_used_at <= used.at
                     OR locked.last_used_at > now() + interval '1 hour') ${isForTarget}
                 RETURNING used.event_id, used.at, holder.*, locked.last_used_at AS used_before)
          ${insertAuditEvents({
            id: 'event_id',
            time: 'at',
            event: `'${event}'`,
            actor_door: `'${door}'`,
            actor_id: 'id::text',
            subject: 'id::text',
            request_id: 'NULL::text',
            address: 'NULL::text',
            details,
            count: '1',
          })} FROM written WHERE used_before IS NULL`;
  return { name: `${name}_record_use`, text };
}
