import { setTimeout as sleep } from 'node:timers/promises';
import { insertAuditEvents } from '../audit/audit-events.js';
import { createId } from '../../foundation/common/ids.js';
import type { Database, Statement } from '../../foundation/database/database.js';
import { DeferredWrites } from '../audit/deferred-writes.js';
import type { Log } from '../../foundation/logging/log.js';
import type { KeyKind } from './key-record.js';

const BATCH_SIZE = 1_000;
/** Limits memory while the database is unavailable. Further keys are recorded at their first use after that. */
const MAX_PENDING = 100_000;
/** Limit for one service, so that one that reports random ids prevents no other from reporting. */
const MAX_REPORTED = 20_000;
/** Beyond this number reports are written early, which drops the ids that no key has. */
const MANY_REPORTED = 10_000;

/** How long a request waits for the write of a first use; less than a verifier waits for an answer. */
const MAX_WRITE_WAIT_MS = 300;

/** Number of scopes that are recorded for a key: the latest ones. */
const MAX_SCOPES = 64;

interface Use {
  at: Date;
  service: string | null;
  /** Whether the key before the last rotation was used. */
  readonly isPrevious: boolean;
  scopes?: Map<string, Date>;
}

type NewUse = Pick<Use, 'at' | 'service'> & Partial<Pick<Use, 'isPrevious'>>;
type Uses = Map<string, Use>;

interface ReportedUses {
  readonly uses: Uses;
  /** Number of ids and scopes. */
  size: number;
}

/** Keeps the uses of the two keys of a credential apart. */
const toUsesKey = (id: string, isPrevious: boolean): string => (isPrevious ? `${id} previous` : id);
const toId = (usesKey: string): string => usesKey.split(' ', 1)[0] ?? usesKey;

interface PendingUse extends Use {
  readonly id: string;
  readonly isReported: boolean;
}

/** The last use of each key, written in batches rather than at each request. First uses become audit events. */
export class LastUses extends DeferredWrites<PendingUse[]> {
  private seen: Uses = new Map();
  /** Reports by service, apart from the uses that this replica saw. */
  private reported = new Map<string, ReportedUses>();
  /** Uses by id that are being written at once. */
  private readonly writes = new Map<string, Promise<void>>();

  constructor(
    private readonly database: Database,
    private readonly recordUses: Statement,
    log: Log,
  ) {
    super('last_used_not_recorded', log);
  }

  addUse(id: string, { at, service, isPrevious = false }: NewUse, scope?: string): void {
    const usesKey = toUsesKey(id, isPrevious);
    const use = this.seen.get(usesKey) ?? { at, service, isPrevious };
    use.at = at;
    use.service = service;
    if (scope !== undefined) noteScope(use, at, scope);
    this.seen.set(usesKey, use);
  }

  /**
   * Writes a use of the current key at once, and waits for a moment. The caller adds it too: in an outage or a stall it is
   * written with the others. Single flight, because a service may bring its new key with many requests at once.
   */
  async writeUse(id: string, use: Pick<Use, 'at' | 'service'>): Promise<void> {
    let write = this.writes.get(id);
    if (!write) {
      write = this.writeEarly([{ id, ...use, isPrevious: false, isReported: false }]);
      this.writes.set(id, write);
      void write.finally(() => this.writes.delete(id));
    }
    await Promise.race([write, sleep(MAX_WRITE_WAIT_MS, undefined, { ref: false })]);
  }

  /** Adds a use that a service reports. Its id need not exist. */
  addReportedUse(id: string, service: string, at: Date, scope?: string, isPrevious = false): void {
    const reported = this.reported.get(service) ?? { uses: new Map<string, Use>(), size: 0 };
    this.reported.set(service, reported);
    const usesKey = toUsesKey(id, isPrevious);
    let use = reported.uses.get(usesKey);
    if (!use) {
      if (reported.size >= MAX_REPORTED) return;
      reported.uses.set(usesKey, (use = { at, service, isPrevious }));
      reported.size += 1;
    }
    if (use.at < at) use.at = at;
    if (scope !== undefined && (reported.size < MAX_REPORTED || use.scopes?.has(scope)) && noteScope(use, at, scope))
      reported.size += 1;
    if (reported.size >= MANY_REPORTED) this.flushEarly();
  }

  /**
   * Uses that this replica saw come first and in statements of their own, because they outrank reports of the same key.
   * The two keys of a credential need separate statements too, because a statement can write a row only once.
   */
  protected takeBatches(): PendingUse[][] {
    const seen = [...this.seen].map(([key, use]) => ({ ...use, id: toId(key), isReported: false }));
    const reported = [...this.reported.values()].flatMap(({ uses }) =>
      [...uses].map(([key, use]) => ({ ...use, id: toId(key), isReported: true })),
    );
    this.seen = new Map();
    this.reported = new Map();
    return [seen, reported].flatMap((uses) => [
      ...toBatches(uses.filter(({ isPrevious }) => !isPrevious)),
      ...toBatches(uses.filter(({ isPrevious }) => isPrevious)),
    ]);
  }

  protected async writeBatch(uses: readonly PendingUse[]): Promise<void> {
    await this.database.rows(this.recordUses, [
      uses.map(({ id }) => id),
      uses.map(({ at }) => at),
      uses.map(({ service }) => service),
      uses.map(({ isReported }) => isReported),
      uses.map(() => createId()),
      uses.map(({ scopes }) => (scopes ? JSON.stringify(Object.fromEntries(scopes)) : null)),
      uses.map(({ isPrevious }) => isPrevious),
    ]);
  }

  protected putBack(unwritten: readonly PendingUse[][]): void {
    for (const { id, at, service, isPrevious, isReported, scopes = [] } of unwritten.flat()) {
      if (isReported && service !== null) {
        this.addReportedUse(id, service, at, undefined, isPrevious);
        for (const [scope, askedAt] of scopes) this.addReportedUse(id, service, askedAt, scope, isPrevious);
        continue;
      }
      const usesKey = toUsesKey(id, isPrevious);
      if (this.seen.size < MAX_PENDING && !this.seen.has(usesKey)) this.seen.set(usesKey, { at, service, isPrevious });
      const use = this.seen.get(usesKey);
      if (use) for (const [scope, askedAt] of scopes) noteScope(use, askedAt, scope);
    }
  }
}

/** @returns whether the use did not have this scope before */
function noteScope(use: Use, at: Date, scope: string): boolean {
  const scopes = (use.scopes ??= new Map<string, Date>());
  const known = scopes.get(scope);
  const isNoted = known ? known < at : scopes.size < MAX_SCOPES;
  if (isNoted) scopes.set(scope, at);
  return isNoted && !known;
}

/** Sorts by id, so that two replicas cannot deadlock. */
function toBatches(uses: PendingUse[]): PendingUse[][] {
  uses.sort((left, right) => (left.id < right.id ? -1 : 1));
  const starts = Array.from({ length: Math.ceil(uses.length / BATCH_SIZE) }, (_, index) => index * BATCH_SIZE);
  return starts.map((start) => uses.slice(start, start + BATCH_SIZE));
}

/** Details of the event of a first use: an SQL expression over the columns of the table and `is_reported`. */
const DETAILS_OF_FIRST_USE = `jsonb_build_object('called_service', service,
  'reported_by', CASE WHEN is_reported THEN service END)`;

/**
 * Locks the rows first, so that two replicas that race to record a first use write one audit row. Ignores reports of a
 * service that is not the key's target, which cannot have accepted the key.
 * A use that a replica saw counts as the first one, whatever was reported before; otherwise the later use wins, unless
 * it lies more than an hour in the future and so came from a fast clock. A use from before the rotation counts for the
 * previous key.
 */
export function buildRecordUses(kind: KeyKind): Statement {
  const { table, door, firstUseEvent, firstUseDetails = `'{}'::jsonb`, targetColumn, scopeUsesColumn } = kind;
  const isForTarget = targetColumn ? `WHERE service IS NULL OR service = ${targetColumn}` : '';
  const isLatest = `used_before IS NULL OR is_first OR used_before <= at OR used_before > now() + interval '1 hour'`;
  const write = (column: string, value: string, isOfPrevious: boolean) =>
    `${column} = CASE WHEN is_of_previous = ${isOfPrevious} AND (${isLatest}) THEN ${value} ELSE ${column} END`;
  const noteScopes = scopeUsesColumn
    ? `, ${scopeUsesColumn} = CASE WHEN asked IS NULL THEN ${scopeUsesColumn} ELSE
         (SELECT jsonb_object_agg(key, value) FROM
           (SELECT * FROM jsonb_each(${scopeUsesColumn} || asked)
            ORDER BY value DESC LIMIT ${MAX_SCOPES}) AS latest_scopes) END`
    : '';
  const text = `WITH used AS (SELECT * FROM unnest($1::uuid[], $2::timestamptz[], $3::text[], $4::boolean[], $5::uuid[],
                   $6::jsonb[], $7::boolean[]) AS used (id, at, service, is_reported, event_id, asked, is_previous)),
               locked AS (SELECT * FROM ${table} WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE),
               latest AS (
                 SELECT DISTINCT ON (id) used.*, is_of_previous,
                   CASE WHEN is_of_previous THEN previous_key_used_at ELSE last_used_at END AS used_before,
                   COALESCE(last_used_at, previous_key_used_at) IS NULL
                     OR has_only_reported_uses AND NOT is_reported AS is_first
                 FROM used JOIN locked USING (id),
                   LATERAL (SELECT COALESCE(is_previous OR at < rotated_at, false) AS is_of_previous) AS keyed
                 ${isForTarget} ORDER BY id, at DESC),
               written AS (
                 UPDATE ${table} AS holder SET ${write('last_used_at', 'at', false)},
                   ${write('last_used_for', 'service', false)},
                   ${write('previous_key_used_at', 'at', true)},
                   ${write('previous_key_used_for', 'service', true)},
                   has_only_reported_uses = is_reported AND (is_first OR has_only_reported_uses)${noteScopes}
                 FROM latest WHERE holder.id = latest.id AND (${isLatest} OR asked IS NOT NULL)
                 RETURNING event_id, at, service, is_reported, is_first, holder.*)
          ${insertAuditEvents({
            id: 'event_id',
            time: 'at',
            event: `'${firstUseEvent}'`,
            actor_door: `CASE WHEN is_reported THEN 'service' ELSE '${door}' END`,
            actor_id: 'CASE WHEN NOT is_reported THEN id::text END',
            subject: 'id::text',
            request_id: 'NULL::text',
            address: 'NULL::text',
            details: `jsonb_strip_nulls(${DETAILS_OF_FIRST_USE} || ${firstUseDetails})`,
            count: '1',
          })} FROM written WHERE is_first`;
  return { name: `${table}_record_use`, text };
}
