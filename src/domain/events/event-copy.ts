/**
 * Copies what services may know from the audit log to `events`, seal by seal. A seal lists each committed row once, so
 * the copy needs no comparison of times or transaction ids. Its position commits with the events of a seal: neither a
 * crash nor a second replica repeats or skips one.
 */
import { Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { LOCKS, tryLock } from '../../foundation/database/locks.js';
import type { StoredAuditEvent } from '../audit/audit-events.js';
import { decodeEntries } from '../audit/seals/seal.js';
import { PUBLISHED_AUDIT_EVENTS, toEvents, type PublishedEvent } from './event-types.js';

const MAX_SEALS_PER_RUN = 100;
/** The time that stands in a seal for infinity, which only a row that psql wrote has. */
const INFINITY_MICROS = 2n ** 63n - 1n;

/** The oldest seal after the position. Its entries are missing when it has no rows, or these were dropped. */
const NEXT_SEAL = `SELECT audit_seals.number, entries FROM event_position
  JOIN LATERAL (SELECT number FROM audit_seals WHERE number > seal ORDER BY number LIMIT 1) AS audit_seals ON true
  LEFT JOIN audit_seal_entries ON audit_seal_entries.number = audit_seals.number`;
/** Forces the primary key, because the planner cannot know how few rows a seal has. */
const FORCE_INDEX = 'SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off';
const MOVE = 'UPDATE event_position SET seal = $1';
/** Reads by primary key, in the order of the seal. */
const ROWS_OF_SEAL = `SELECT logged.id, logged.time, event, subject, details, count
  FROM unnest($1::uuid[], $2::bigint[]) WITH ORDINALITY AS entry (id, micros, place)
  JOIN audit_events AS logged ON logged.id = entry.id
    AND logged.time = timestamptz 'epoch' + entry.micros * interval '1 microsecond'
  WHERE event = ANY ($3) AND subject IS NOT NULL ORDER BY place`;
const INSERT = `INSERT INTO events (seal, number, id, type, time, subject, data)
  SELECT $1, number, id, type, time, subject, data
  FROM jsonb_to_recordset($2) AS event (number integer, id uuid, type text, time timestamptz, subject text, data jsonb)`;

interface SealToCopy {
  readonly number: string;
  readonly entries: Buffer | null;
}

type Row = Pick<StoredAuditEvent, 'id' | 'time' | 'event' | 'details' | 'count'> & { readonly subject: string };

@Injectable()
export class EventCopy {
  constructor(private readonly dataSource: DataSource) {}

  /** @returns the number of copied seals; 0 while another replica holds the lock */
  async copyNewSeals(): Promise<number> {
    let copied = 0;
    while (copied < MAX_SEALS_PER_RUN && (await this.dataSource.transaction(copyNextSeal))) copied += 1;
    return copied;
  }
}

async function copyNextSeal(transaction: EntityManager): Promise<boolean> {
  if (!(await tryLock(transaction, LOCKS.events))) return false;
  const [seal] = await transaction.query<SealToCopy[]>(NEXT_SEAL);
  if (!seal) return false;
  const events = (await readRows(transaction, seal)).flatMap((row) =>
    toEvents(row).map((event) => toRecord(row, event)),
  );
  const numbered = events.map((event, index) => ({ number: index + 1, ...event }));
  if (numbered.length > 0) await transaction.query(INSERT, [seal.number, JSON.stringify(numbered)]);
  await transaction.query(MOVE, [seal.number]);
  return true;
}

async function readRows(transaction: EntityManager, { entries }: SealToCopy): Promise<Row[]> {
  const sealed = entries ? decodeEntries(entries).filter(({ micros }) => micros !== INFINITY_MICROS) : [];
  if (sealed.length === 0) return [];
  const values = [sealed.map(({ id }) => id), sealed.map(({ micros }) => String(micros)), PUBLISHED_AUDIT_EVENTS];
  await transaction.query(FORCE_INDEX);
  return transaction.query<Row[]>(ROWS_OF_SEAL, values);
}

function toRecord({ id, time, subject }: Row, { type, data }: PublishedEvent) {
  return { id, type, time, subject, data };
}
