/**
 * What nodes, app credentials and operators have in common as records of keys: columns, filters, counts, restrictions; and what is
 * particular to each kind ({@link KeyKind}). A key is shown once, when it is issued or rotated; the database has only its digest.
 */
import { Column, PrimaryColumn } from 'typeorm';
import { EXPIRY_NOTICE_DAYS, UNUSED_DAYS } from '../../foundation/config/limits.js';
import type { SecretDigest } from '../../foundation/crypto/secret.js';
import type { LogFields } from '../../foundation/logging/log.js';
import { type Filter, toFilter } from '../../foundation/database/page.js';

export abstract class KeyColumns {
  @PrimaryColumn({ type: 'uuid' }) id!: string;
  @Column({ name: 'key_digest', type: 'bytea' }) keyDigest!: SecretDigest;
  @Column({ name: 'previous_key_digest', type: 'bytea', nullable: true }) previousKeyDigest!: SecretDigest | null;
  @Column({ name: 'previous_key_expires_at', type: 'timestamptz', nullable: true }) previousKeyExpiresAt!: Date | null;
  @Column({ name: 'rotated_at', type: 'timestamptz', nullable: true }) rotatedAt!: Date | null;
  @Column({ name: 'expires_at', type: 'timestamptz', nullable: true }) expiresAt!: Date | null;
  @Column({ name: 'revoked_at', type: 'timestamptz', nullable: true }) revokedAt!: Date | null;

  /** Of the newest key. Before its first use, of the key that it replaced. */
  @Column({ name: 'last_used_at', type: 'timestamptz', nullable: true }) lastUsedAt!: Date | null;
  @Column({ name: 'last_used_for', type: 'text', nullable: true }) lastUsedFor!: string | null;

  /** Of the key before the last rotation, also before that rotation. */
  @Column({ name: 'previous_key_used_at', type: 'timestamptz', nullable: true }) previousKeyUsedAt!: Date | null;
  @Column({ name: 'previous_key_used_for', type: 'text', nullable: true }) previousKeyUsedFor!: string | null;

  @Column({ name: 'rotated_by_request', type: 'text', nullable: true }) rotatedByRequest!: string | null;
  @Column({ name: 'overlap_ended_at', type: 'timestamptz', nullable: true }) overlapEndedAt!: Date | null;
  @Column({ name: 'overlap_ended_by_request', type: 'text', nullable: true }) overlapEndedByRequest!: string | null;
  @Column({ name: 'revoked_by_request', type: 'text', nullable: true }) revokedByRequest!: string | null;

  /** Services have reported uses, and no replica has seen one yet. */
  @Column({ name: 'has_only_reported_uses', type: 'boolean', default: false }) hasOnlyReportedUses!: boolean;
  @Column({ name: 'created_at', type: 'timestamptz' }) createdAt!: Date;
  @Column({ name: 'updated_at', type: 'timestamptz' }) updatedAt!: Date;
}

export interface KeyFilter {
  /** Only keys that are neither revoked nor expired. */
  readonly isLive: boolean;
  /** Only keys that were not used since; a key that was never used counts from its creation. */
  readonly unusedSince: Date | undefined;
  readonly expiresBefore: Date | undefined;
  /** Only keys whose former key is valid beside them. */
  readonly isInOverlap: boolean;
}

export const isLiveAt = (moment: string): string =>
  `revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ${moment})`;
const USED_AT = 'COALESCE(GREATEST(last_used_at, previous_key_used_at), created_at)';

/** No index serves the last use: it would make each of the frequent writes of that column dearer. */
export function toKeyFilters({ isLive, isInOverlap, unusedSince, expiresBefore }: KeyFilter, now: Date): Filter[] {
  return [
    ...(isLive ? [toFilter(isLiveAt(':now'), { now })] : []),
    ...(isInOverlap ? [toFilter('previous_key_expires_at > :now', { now })] : []),
    ...(unusedSince ? [toFilter(`${USED_AT} < :unusedSince`, { unusedSince })] : []),
    ...(expiresBefore ? [toFilter('expires_at < :expiresBefore', { expiresBefore })] : []),
  ];
}

/** Of the live keys, some may be unused or expiring, or both. */
export interface KeyCounts {
  readonly live: number;
  /** Revoked or expired. */
  readonly ended: number;
  readonly unused: number;
  readonly expiring: number;
}

/** When a key was accepted, and for which service, if that is known. */
export interface KeyUse {
  readonly at: Date;
  readonly service: string | null;
}

type UseColumns = Pick<
  KeyColumns,
  'rotatedAt' | 'lastUsedAt' | 'lastUsedFor' | 'previousKeyUsedAt' | 'previousKeyUsedFor'
>;

/** @returns the last use of each key of a credential, and the later of both; null: it was not used. A new row lacks the columns. */
export function readLastUses(row: UseColumns): Readonly<Record<'latest' | 'current' | 'previous', KeyUse | null>> {
  const { rotatedAt, lastUsedAt, previousKeyUsedAt } = row;
  const last = lastUsedAt ? { at: lastUsedAt, service: row.lastUsedFor } : null;
  const previous = previousKeyUsedAt ? { at: previousKeyUsedAt, service: row.previousKeyUsedFor } : null;
  const isPreviousLatest = previous !== null && (last === null || previous.at > last.at);
  const isCurrent = last !== null && (!rotatedAt || last.at >= rotatedAt);
  return { latest: isPreviousLatest ? previous : last, current: isCurrent ? last : null, previous };
}

/** Counts the keys of a table at a moment ($1). */
export function buildKeyCount(table: KeyTable) {
  return {
    name: `${table}_count`,
    text: `SELECT count(*) FILTER (WHERE is_live)::integer AS live, count(*) FILTER (WHERE NOT is_live)::integer AS ended,
        count(*) FILTER (WHERE is_live AND used_at < $1 - interval '${UNUSED_DAYS} days')::integer AS unused,
        count(*) FILTER (WHERE is_live AND expires_at < $1 + interval '${EXPIRY_NOTICE_DAYS} days')::integer AS expiring
      FROM (SELECT ${isLiveAt('$1::timestamptz')} AS is_live, expires_at, ${USED_AT} AS used_at FROM ${table}) AS keys`,
  };
}

export interface AskedUse {
  /** The service that a key is presented to, when it names itself. */
  readonly target?: string | undefined;
  /** What the call needs. Null: it names no scope, and a restricted key is refused. Undefined: the service compares scopes itself. */
  readonly scope?: string | null | undefined;
}

/** What the row of a key restricts it to. */
export interface KeyRestrictions {
  readonly target?: string;
  readonly targets?: readonly string[] | null;
  readonly scopes?: readonly string[] | null;
}

export interface RestrictionViolation {
  readonly code: 'target' | 'other_target' | 'missing_scope';
  readonly detail: string;
}

/** Constants, never input, because they become SQL. */
export type KeyTable = 'nodes' | 'app_credentials' | 'operators';

/** What is particular to the keys of one table. Texts are constants, never input: they become SQL. */
export interface KeyKind<Entity extends KeyColumns = KeyColumns> {
  readonly table: KeyTable;
  /**
   * Replicas of a service, or a person and pipelines, present the same key: they learn a new one at different times, and its first
   * use does not end the old one. An operator may, with this audit event.
   */
  readonly shared?: {
    readonly finishedEvent: 'admin.app_credential.rotation_finished' | 'admin.operator.rotation_finished';
  };
  /** The actor of the use of a key, in the audit log. */
  readonly door: 'node' | 'app' | 'admin';
  /**
   * Valid keys are cached under a lease (key-cache.ts), and evicted by changes of this kind, for which a revocation waits.
   * Absent: each call reads the row, so that every change holds from the next call on.
   */
  readonly cachedAs?: 'node' | 'app';
  readonly auditPrefix: 'admin.node' | 'admin.app_credential' | 'admin.operator';
  readonly firstUseEvent: 'node.first_used' | 'app.first_used' | 'operator.first_used';
  /** Of the event of the first use: an expression over the columns of the table. */
  readonly firstUseDetails?: string;
  /** Absent: the door counts refusals by network. */
  readonly refusalEvent?: 'node.validation.failed' | 'app.validation.failed';
  /** What a verdict tells about the holder of the key. */
  readonly identityColumns: readonly string[];
  /** Properties that no verdict depends on: their change is not awaited as a revocation is. */
  readonly labels: readonly string[];
  /** Where the table notes when each scope was last asked for. */
  readonly scopeUsesColumn?: string;
  /** The column of the only service that its keys may be used for; absent: any. */
  readonly targetColumn?: string;
  /** Lets secret scanners recognise a leaked key. */
  readonly keyPrefix: string;
  /** Says why a valid key is not accepted for what is asked of it. */
  findViolation(restrictions: KeyRestrictions, asked: AskedUse): RestrictionViolation | undefined;
  toLogFields(row: Entity): LogFields;
  /** What operators may change, named as in the audit log. */
  toChangeableFields(row: Entity): Record<string, unknown>;
  /** What they cannot change, named as in the audit log. */
  toFixedFields(row: Entity): Record<string, unknown>;
}

/** A row, and its new key in plain text, which exists nowhere else. */
export interface IssuedCredential<Row extends KeyColumns> {
  readonly credential: Row;
  readonly key: string;
}
