import { Column, PrimaryColumn } from 'typeorm';
import type { SecretDigest } from '../crypto/secret.js';

/** The columns that nodes and app credentials share: digests, never keys. */
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

  @Column({ name: 'created_at', type: 'timestamptz' })
  createdAt!: Date;

  @Column({ name: 'updated_at', type: 'timestamptz' })
  updatedAt!: Date;
}
