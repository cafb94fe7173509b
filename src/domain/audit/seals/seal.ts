/**
 * Seals make the audit log tamper-evident. A seal lists every row that was committed since the preceding seal, each
 * with an HMAC over all its columns. It is a JSON text with an HMAC, and contains the HMAC of its predecessor (a hash
 * chain). Invariants: a row is in exactly one seal; a seal never changes; a database superuser does not have the key.
 * This file has the format, decision 43 the reasons; test/domain/audit/seals.spec.ts fails without it.
 */
import { toUuid } from '../../../foundation/common/ids.js';
import { parseJson } from '../../../foundation/common/json.js';
import { computeDigest, computeMac, deriveKey, isSameDigest } from '../../../foundation/crypto/secret.js';

/** What was committed at one moment. After a restore from a dump, transaction ids start again, in a new epoch. */
export interface EpochSnapshot {
  readonly epoch: number;
  /** `xmin:xmax:xip,…` as PostgreSQL writes a pg_snapshot. */
  readonly snapshot: string;
  readonly at: string | null;
}

export const BEFORE_FIRST_SEAL: EpochSnapshot = { epoch: -1, snapshot: '1:1:', at: null };

export interface Position {
  readonly epoch: number;
  readonly xid: string;
  readonly time: string;
  readonly id: string;
}

/** What a fold deleted: every seal up to the number `through`, whose HMAC is `mac` in hex. */
export interface Fold {
  readonly through: number;
  readonly mac: string;
}

/** The content of a seal. Its rows are visible in `to` and not in `from`, up to the position `through`. */
export interface SealContent {
  readonly number: number;
  /** HMAC of the preceding seal in hex; empty in the first one. */
  readonly previous: string;
  /** Id of the key, which distinguishes a seal under an older key from a forged one. */
  readonly key: string;
  readonly at: string;
  readonly from: EpochSnapshot;
  readonly to: EpochSnapshot;
  /** Position of the last row, if the span has more rows than one seal lists; the next seal continues after it. */
  readonly through: Position | null;
  readonly rows: number;
  /** SHA-256 of the entries, in hex. */
  readonly entries: string;
  /** The months of its rows, such as `2026-11`. */
  readonly months: readonly string[];
  /** The month whose drop this seal records; such a seal has no rows. */
  readonly dropped: string | null;
  /** The fold that this seal records; such a seal has no rows. */
  readonly folded?: Fold;
}

export interface StoredSeal {
  readonly number: string;
  readonly content: string;
  readonly mac: Buffer;
}

export interface SealEntry {
  readonly id: string;
  /** Microseconds since 1970, the precision of PostgreSQL. */
  readonly micros: bigint;
  readonly mac: Buffer;
}

/** An operator has looked at a finding of `audit verify`. Its row in the audit log holds it with an HMAC. */
export interface Acknowledgement {
  /** The name of the finding. */
  readonly finding: string;
  readonly operator: string;
  readonly reason: string;
  readonly at: string;
}

/**
 * All columns of a row of `audit_events AS logged` as one text, in UTC. Null columns are missing, so that a column that
 * is added later does not change the text of existing rows.
 */
export const CANONICAL_ROW = `(SELECT jsonb_object_agg(key, value)
  FROM jsonb_each(to_jsonb(logged)) WHERE value <> 'null')::text`;

export const UTC_TIME = `to_char(logged.time, 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;

/** Time in microseconds since 1970; the largest bigint for infinity. */
export const MICROS = `CASE WHEN isfinite(logged.time) THEN (extract(epoch FROM logged.time) * 1000000)::bigint
  ELSE 9223372036854775807 END`;

/**
 * Whether a row is visible in the snapshot `$2` of epoch `$1`. A CASE, because the planner then reads rows in the order
 * of the index and uses this condition only as a filter.
 */
export const IS_SEALED = `CASE WHEN logged.epoch = $1 THEN pg_visible_in_snapshot(logged.xid, $2::pg_snapshot)
  ELSE logged.epoch < $1 END`;

export const LAST_SEAL = 'SELECT number, content, mac FROM audit_seals ORDER BY number DESC LIMIT 1';

/** The seals that record a drop or a fold; the condition is that of their index. */
export const RECORDS = `SELECT number, content, mac FROM audit_seals
  WHERE content LIKE '%"dropped":"%' OR content LIKE '%"folded":{%' ORDER BY number`;

const PURPOSE = 'platform-auth audit seal v1';
const KEY_ID_LENGTH = 16;
const [ID_BYTES, TIME_BYTES, MAC_BYTES] = [16, 8, 32];
const ENTRY_BYTES = ID_BYTES + TIME_BYTES + MAC_BYTES;

export class SealKey {
  private readonly key;
  readonly id: string;

  /** @param secret AUDIT_SEAL_KEY, or MASTER_KEY when that is not set */
  constructor(secret: string) {
    this.key = deriveKey(secret, PURPOSE);
    this.id = computeMac(this.key, 'id').toString('hex').slice(0, KEY_ID_LENGTH);
  }

  /** @param row the text of {@link CANONICAL_ROW} */
  computeRowMac(row: string): Buffer {
    return computeMac(this.key, `row\n${row}`);
  }

  computeSealMac(content: string): Buffer {
    return computeMac(this.key, `seal\n${content}`);
  }

  /** Needs the key, because a superuser of the database could otherwise acknowledge what it changed. */
  computeAcknowledgementMac({ finding, operator, reason }: Omit<Acknowledgement, 'at'>): Buffer {
    return computeMac(this.key, `acknowledgement\n${JSON.stringify([finding, operator, reason])}`);
  }

  hasSealed({ content, mac: stored }: StoredSeal): boolean {
    return isSameDigest(this.computeSealMac(content), stored);
  }
}

export type SealKeys = ReadonlyMap<string, SealKey>;

/** Runs SQL in one read-only transaction, so that rows and seals belong to one snapshot. */
export type Query = <Row extends object>(text: string, values?: unknown[]) => Promise<Row[]>;

export function parseContent({ content }: StoredSeal): SealContent | undefined {
  return parseJson(content) as SealContent | undefined;
}

export function encodeEntries(entries: readonly SealEntry[]): Buffer {
  const bytes = Buffer.alloc(entries.length * ENTRY_BYTES);
  entries.forEach(({ id, micros, mac: rowMac }, index) => {
    const start = index * ENTRY_BYTES;
    bytes.write(id.replaceAll('-', ''), start, 'hex');
    bytes.writeBigInt64BE(micros, start + ID_BYTES);
    rowMac.copy(bytes, start + ID_BYTES + TIME_BYTES);
  });
  return bytes;
}

export function decodeEntries(bytes: Buffer): SealEntry[] {
  return Array.from({ length: Math.floor(bytes.length / ENTRY_BYTES) }, (_, index) => {
    const entry = bytes.subarray(index * ENTRY_BYTES, (index + 1) * ENTRY_BYTES);
    return {
      id: toUuid(entry.subarray(0, ID_BYTES)) ?? entry.toString('hex', 0, ID_BYTES),
      micros: entry.readBigInt64BE(ID_BYTES),
      mac: entry.subarray(ID_BYTES + TIME_BYTES),
    };
  });
}

export function digestEntries(bytes: Buffer): string {
  return computeDigest(bytes).toString('hex');
}

const WORD = 'platform-auth-audit-checkpoint/1';
const LINE = new RegExp(`^${WORD} ([1-9]\\d{0,14}) \\S+ ([0-9a-f]{64})$`);

/** The head of the chain at one moment. Its HMAC covers every earlier seal. */
interface Checkpoint {
  readonly number: number;
  readonly at: string;
  readonly mac: Buffer;
}

export function formatCheckpoint({ number, at, mac }: Checkpoint): string {
  return `${WORD} ${number} ${at} ${mac.toString('hex')}`;
}

export function isCheckpoint(line: string): boolean {
  return LINE.test(line.trim());
}

export function parseCheckpoint(line: string): Pick<Checkpoint, 'number' | 'mac'> {
  const [, number, mac] = LINE.exec(line.trim()) ?? [];
  if (number === undefined || mac === undefined) throw new Error('It is not a line of "audit checkpoint".');
  return { number: Number(number), mac: Buffer.from(mac, 'hex') };
}
