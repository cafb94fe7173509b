import { Entity, Index, PrimaryColumn, Column } from 'typeorm';
import type { SecretDigest } from '../../foundation/crypto/secret.js';

export const SESSION_END_REASONS = [
  'logout',
  'owner',
  'password_changed',
  'password_reset',
  'second_factor_added',
  'reuse',
  'admin',
  'disabled',
  'session_limit',
] as const;
export type SessionEndReason = (typeof SESSION_END_REASONS)[number];

/** One login, with all rotations of its refresh token. */
@Entity('sessions')
@Index('sessions_user_id_idx', ['userId', 'id'])
@Index('sessions_not_ended_idx', ['userId', 'id'], { where: 'ended_at IS NULL' })
@Index('sessions_dead_at_idx', { synchronize: false })
export class Session {
  @PrimaryColumn({ type: 'uuid', primaryKeyConstraintName: 'sessions_pkey' }) id!: string;
  @Column({ name: 'user_id', type: 'uuid' }) userId!: string;
  @Column({ name: 'token_digest', type: 'bytea' }) tokenDigest!: SecretDigest;
  @Column({ type: 'integer' }) generation!: number;
  @Column({ name: 'rotated_at', type: 'timestamptz' }) rotatedAt!: Date;

  /** Network from which the last rotation was requested; null before the first one. */
  @Column({ name: 'rotated_from', type: 'text', nullable: true }) rotatedFrom!: string | null;

  /** The last generation whose repeat from another network is in the audit log. */
  @Column({ name: 'elsewhere_generation', type: 'integer', nullable: true }) elsewhereGeneration!: number | null;
  @Column({ name: 'expires_at', type: 'timestamptz' }) expiresAt!: Date;
  @Column({ name: 'absolute_expires_at', type: 'timestamptz' }) absoluteExpiresAt!: Date;
  @Column({ name: 'ended_at', type: 'timestamptz', nullable: true }) endedAt!: Date | null;
  @Column({ name: 'end_reason', type: 'text', nullable: true }) endReason!: SessionEndReason | null;
  @Column({ type: 'text', array: true, default: ['pwd'] }) amr!: string[];
  @Column({ name: 'created_at', type: 'timestamptz' }) createdAt!: Date;
  @Column({ name: 'created_from', type: 'text', nullable: true }) createdFrom!: string | null;
  @Column({ name: 'user_agent', type: 'text', nullable: true }) userAgent!: string | null;
}
