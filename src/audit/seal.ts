import { toUuid } from '../common/ids.js';
import { deriveKey, computeDigest, computeMac, isSameDigest } from '../crypto/secret.js';

/*
 * Seals make the audit log tamper-evident. A seal lists every row that was committed since the seal before it, each with an
 * HMAC over all its columns. The seal is a JSON text with an HMAC, and contains the HMAC of its predecessor: a hash chain.
 * Invariants: a row is in exactly one seal; a seal never changes; a database superuser does not have the key.
 */

/** What was committed at one moment: a snapshot of PostgreSQL, which is meaningful in its epoch of transaction ids only. */
export interface EpochSnapshot {
  readonly epoch: number;
  /** `xmin:xmax:xip,…` as PostgreSQL writes a pg_snapshot. */
  readonly snapshot: string;
  /** Null before the first seal. */
  readonly at: string | null;
}

/** The position of a row in the order of sealing. */
export interface Position {
  readonly epoch: number;
  readonly xid: string;
  readonly time: string;
  readonly id: string;
}

/** The content of a seal. Its rows are visible in `to`, not visible in `from`, and not beyond `through`. */
export interface SealContent {
  readonly number: number;
  /** HMAC of the seal before, in hex; empty in the first one. */
  readonly previous: string;
  /** The id of the key: distinguishes a seal under an older key from a forged one. */
  readonly key: string;
  readonly at: string;
  readonly from: EpochSnapshot;
  readonly to: EpochSnapshot;
  /** The last row, when the next seal continues the same span. */
  readonly through: Position | null;
  readonly rows: number;
  /** SHA-256 of the entries, in hex. */
  readonly entries: string;
  /** The months of its rows, as in `2026-11`. */
  readonly months: readonly string[];
  /** The month that retention dropped. Such a seal has no rows. */
  readonly dropped: string | null;
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

const PURPOSE = 'platform-auth audit seal v1';
const KEY_ID_LENGTH = 16;
const [ID_BYTES, TIME_BYTES, MAC_BYTES] = [16, 8, 32];
const ENTRY_BYTES = ID_BYTES + TIME_BYTES + MAC_BYTES;

/** Creates and verifies the HMACs of seals. */
export class SealKey {
  private readonly key;
  readonly id: string;

  /** @param secret AUDIT_SEAL_KEY, or SECRET_KEY when that is not set */
  constructor(secret: string) {
    this.key = deriveKey(secret, PURPOSE);
    this.id = computeMac(this.key, 'id').toString('hex').slice(0, KEY_ID_LENGTH);
  }

  /** @param row all its columns, as {@link CANONICAL_ROW} writes them */
  computeRowMac(row: string): Buffer {
    return computeMac(this.key, `row\n${row}`);
  }

  computeSealMac(content: string): Buffer {
    return computeMac(this.key, `seal\n${content}`);
  }

  hasSealed({ content, mac: stored }: StoredSeal): boolean {
    return isSameDigest(this.computeSealMac(content), stored);
  }
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

/** Shows no row. */
export const BEFORE_FIRST_SEAL: EpochSnapshot = { epoch: -1, snapshot: '1:1:', at: null };
