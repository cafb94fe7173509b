/**
 * The columns, filters, counts and restrictions that nodes, app credentials and operators share, and what is particular
 * to each kind ({@link KeyKind}). The database has only the digest of a key, which is shown once: when it is issued or
 * rotated.
 */
import { Column, PrimaryColumn } from 'typeorm';
import { EXPIRY_NOTICE_DAYS, UNUSED_DAYS } from '../../foundation/config/limits.js';
import type { SecretDigest } from '../../foundation/crypto/secret.js';
import { KEY_KINDS, type KeyKindName } from '../../foundation/common/key-kinds.js';
import type { AuditEventName } from '../../foundation/common/security-events.js';
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

  /** Last use of the current key; until its first use, that of the key that it replaced. */
  @Column({ name: 'last_used_at', type: 'timestamptz', nullable: true }) lastUsedAt!: Date | null;
  @Column({ name: 'last_used_for', type: 'text', nullable: true }) lastUsedFor!: string | null;

  /** Last use of the key before the last rotation, whether before or after that rotation. */
  @Column({ name: 'previous_key_used_at', type: 'timestamptz', nullable: true }) previousKeyUsedAt!: Date | null;
  @Column({ name: 'previous_key_used_for', type: 'text', nullable: true }) previousKeyUsedFor!: string | null;

  @Column({ name: 'rotated_by_request', type: 'text', nullable: true }) rotatedByRequest!: string | null;
  @Column({ name: 'overlap_ended_at', type: 'timestamptz', nullable: true }) overlapEndedAt!: Date | null;
  @Column({ name: 'overlap_ended_by_request', type: 'text', nullable: true }) overlapEndedByRequest!: string | null;
  @Column({ name: 'revoked_by_request', type: 'text', nullable: true }) revokedByRequest!: string | null;

  /** Whether all known uses were reported by services, and none was seen by a replica. */
  @Column({ name: 'has_only_reported_uses', type: 'boolean', default: false }) hasOnlyReportedUses!: boolean;
  @Column({ name: 'created_at', type: 'timestamptz' }) createdAt!: Date;
  @Column({ name: 'updated_at', type: 'timestamptz' }) updatedAt!: Date;
}

export interface KeyFilter {
  readonly isLive: boolean;
  /** Only keys whose last use, or creation if they were never used, is before this moment. */
  readonly unusedSince: Date | undefined;
  readonly expiresBefore: Date | undefined;
  /** Only credentials with two valid keys. */
  readonly isInOverlap: boolean;
}

export const isLiveAt = (moment: string): string =>
  `revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ${moment})`;
const USED_AT = 'COALESCE(GREATEST(last_used_at, previous_key_used_at), created_at)';

/** No index serves the last use, because it would slow down each of the frequent writes of that column. */
export function toKeyFilters({ isLive, isInOverlap, unusedSince, expiresBefore }: KeyFilter, now: Date): Filter[] {
  return [
    ...(isLive ? [toFilter(isLiveAt(':now'), { now })] : []),
    ...(isInOverlap ? [toFilter('previous_key_expires_at > :now', { now })] : []),
    ...(unusedSince ? [toFilter(`${USED_AT} < :unusedSince`, { unusedSince })] : []),
    ...(expiresBefore ? [toFilter('expires_at < :expiresBefore', { expiresBefore })] : []),
  ];
}

/** A live key may also be unused, expiring, or both. */
export interface KeyCounts {
  readonly live: number;
  readonly ended: number;
  readonly unused: number;
  readonly expiring: number;
}

/** `service` is null when the accepted request did not name one. */
interface KeyUse {
  readonly at: Date;
  readonly service: string | null;
}

type UseColumns = Pick<
  KeyColumns,
  'rotatedAt' | 'lastUsedAt' | 'lastUsedFor' | 'previousKeyUsedAt' | 'previousKeyUsedFor'
>;

/** @returns the last use of each key, and the later of both. A row that was just created has no columns of uses. */
export function readLastUses(row: UseColumns): Readonly<Record<'latest' | 'current' | 'previous', KeyUse | null>> {
  const { rotatedAt, lastUsedAt, previousKeyUsedAt } = row;
  const last = lastUsedAt ? { at: lastUsedAt, service: row.lastUsedFor } : null;
  const previous = previousKeyUsedAt ? { at: previousKeyUsedAt, service: row.previousKeyUsedFor } : null;
  const isPreviousLatest = previous !== null && (last === null || previous.at > last.at);
  const isCurrent = last !== null && (!rotatedAt || last.at >= rotatedAt);
  return { latest: isPreviousLatest ? previous : last, current: isCurrent ? last : null, previous };
}

/** Builds the statement that counts the keys of a table at a moment (`$1`). */
export function buildKeyCount(table: KeyTable) {
  return {
    name: `${table}_count`,
    text: `SELECT count(*) FILTER (WHERE is_live)::integer AS live,
        count(*) FILTER (WHERE NOT is_live)::integer AS ended,
        count(*) FILTER (WHERE is_live AND used_at < $1 - interval '${UNUSED_DAYS} days')::integer AS unused,
        count(*) FILTER (WHERE is_live AND expires_at < $1 + interval '${EXPIRY_NOTICE_DAYS} days')::integer AS expiring
      FROM (SELECT ${isLiveAt('$1::timestamptz')} AS is_live, expires_at, ${USED_AT} AS used_at FROM ${table}) AS keys`,
  };
}

export interface AskedUse {
  /** The service at which the key is presented, if it named itself. */
  readonly target?: string | undefined;
  /**
   * The scope that the call needs. Null: the call names none, and a restricted key is refused; undefined: the service
   * compares scopes itself.
   */
  readonly scope?: string | null | undefined;
  /** Whether the call acts on the key itself, which no restriction concerns. */
  readonly isOwnKey?: boolean | undefined;
}

export interface KeyRestrictions {
  readonly target?: string;
  readonly targets?: readonly string[] | null;
  readonly scopes?: readonly string[] | null;
}

export interface RestrictionViolation {
  readonly code: 'target' | 'other_target' | 'missing_scope';
  readonly detail: string;
}

type AnyKind = (typeof KEY_KINDS)[KeyKindName];
type KeyWords = { readonly [Word in keyof AnyKind]: AnyKind[Word] };

/** A constant, because it becomes part of SQL. */
export type KeyTable = KeyWords['table'];

/**
 * What is particular to the keys of one kind: its entry of KEY_KINDS, and its rules. Its texts are constants, because
 * they become part of SQL.
 */
export interface KeyKind<Entity extends KeyColumns = KeyColumns> extends KeyWords {
  readonly name: KeyKindName;
  /**
   * Present when several processes use the same key: they learn a new key at different times, so its first use does not
   * end the old one. An operator ends it, with this audit event.
   */
  readonly shared?: { readonly finishedEvent: AuditEventName };
  /** Details of the event of the first use: an SQL expression over the columns of the table. */
  readonly firstUseDetails?: string;
  /** Columns that a verdict returns about the holder of the key. */
  readonly identityColumns: readonly string[];
  /** Properties on which no verdict depends, so that their change is not awaited as a revocation is. */
  readonly labels: readonly string[];
  /** The column with the last use of each scope. */
  readonly scopeUsesColumn?: string;
  /** The column with the only service at which a key is valid; undefined: keys have no such restriction. */
  readonly targetColumn?: string;
  /** Returns why a valid key is not accepted for this use, if it is not. */
  findViolation(restrictions: KeyRestrictions, asked: AskedUse): RestrictionViolation | undefined;
  toLogFields(row: Entity): LogFields;
  /** The fields that operators can change, named as in the audit log. */
  toChangeableFields(row: Entity): Record<string, unknown>;
  /** The fields that operators cannot change, named as in the audit log. */
  toFixedFields(row: Entity): Record<string, unknown>;
  /** The life of each key, which a rotation starts again; null or absent: a rotation does not move the expiry. */
  getLifeDays?(row: Entity): number | null;
}

/** `key` is the only occurrence of the new key in plain text. */
export interface IssuedCredential<Row extends KeyColumns> {
  readonly credential: Row;
  readonly key: string;
}
