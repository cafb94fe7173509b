/**
 * The columns that nodes, app credentials and operators share, and new keys. A key is shown once, when it is issued or rotated;
 * the database has only its digest.
 */
import { Column, PrimaryColumn } from 'typeorm';
import { computeDigest, generateSecret, type SecretDigest } from '../crypto/secret.js';
import type { LogFields } from '../logging/log.js';

export abstract class KeyColumns {
  @PrimaryColumn({ type: 'uuid' })
  id!: string;

  @Column({ name: 'key_digest', type: 'bytea' })
  keyDigest!: SecretDigest;

  @Column({ name: 'previous_key_digest', type: 'bytea', nullable: true })
  previousKeyDigest!: SecretDigest | null;

  @Column({ name: 'previous_key_expires_at', type: 'timestamptz', nullable: true })
  previousKeyExpiresAt!: Date | null;

  @Column({ name: 'rotated_at', type: 'timestamptz', nullable: true })
  rotatedAt!: Date | null;

  @Column({ name: 'expires_at', type: 'timestamptz', nullable: true })
  expiresAt!: Date | null;

  @Column({ name: 'revoked_at', type: 'timestamptz', nullable: true })
  revokedAt!: Date | null;

  @Column({ name: 'last_used_at', type: 'timestamptz', nullable: true })
  lastUsedAt!: Date | null;

  @Column({ name: 'rotated_by_request', type: 'text', nullable: true })
  rotatedByRequest!: string | null;

  @Column({ name: 'overlap_ended_at', type: 'timestamptz', nullable: true })
  overlapEndedAt!: Date | null;

  @Column({ name: 'revoked_by_request', type: 'text', nullable: true })
  revokedByRequest!: string | null;

  @Column({ name: 'last_used_for', type: 'text', nullable: true })
  lastUsedFor!: string | null;

  /** Services have reported uses, and no replica has seen one yet. */
  @Column({ name: 'only_reported', type: 'boolean', default: false })
  onlyReported!: boolean;

  @Column({ name: 'created_at', type: 'timestamptz' })
  createdAt!: Date;

  @Column({ name: 'updated_at', type: 'timestamptz' })
  updatedAt!: Date;
}

/** Constants, never input, because they become SQL. */
export interface KeyTable<Entity extends KeyColumns = KeyColumns> {
  readonly name: 'nodes' | 'app_credentials';
  readonly door: 'node' | 'app';
  readonly auditPrefix: 'admin.node' | 'admin.app_credential';
  /** The columns that the principal is made of. */
  readonly identityColumns: readonly string[];
  /** The column of the only service that its keys may be used for; absent: any. */
  readonly targetColumn?: string;
  /** Lets secret scanners recognise a leaked key. */
  readonly keyPrefix: string;
  /** The only service at which a key is valid; absent: any. */
  getTarget?(row: Entity): string;
  toLogFields(row: Entity): LogFields;
}

/** A row, and its new key in plain text, which exists nowhere else. */
export interface IssuedCredential<Row extends KeyColumns> {
  readonly credential: Row;
  readonly key: string;
}

export interface IssuedKey {
  readonly key: string;
  readonly keyDigest: SecretDigest;
}

export function issueKey(prefix: string): IssuedKey {
  const key = generateSecret(prefix);
  return { key, keyDigest: computeDigest(key) };
}
