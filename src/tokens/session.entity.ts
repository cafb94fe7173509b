import { Column, Entity, Index, PrimaryColumn } from 'typeorm';
import type { SecretDigest } from '../crypto/secret.js';

/** One login, however often its refresh token rotates. */
@Entity('sessions')
@Index('sessions_user_id_idx', ['userId', 'id'])
@Index('sessions_dead_at_idx', { synchronize: false })
export class Session {
  @PrimaryColumn({ type: 'uuid', primaryKeyConstraintName: 'sessions_pkey' })
  id!: string;

  @Column({ name: 'user_id', type: 'uuid' })
  userId!: string;

  @Column({ name: 'token_digest', type: 'bytea' })
  tokenDigest!: SecretDigest;

  @Column({ type: 'integer' })
  generation!: number;

  @Column({ name: 'rotated_at', type: 'timestamptz' })
  rotatedAt!: Date;

  @Column({ name: 'expires_at', type: 'timestamptz' })
  expiresAt!: Date;

  @Column({ name: 'absolute_expires_at', type: 'timestamptz' })
  absoluteExpiresAt!: Date;

  @Column({ name: 'ended_at', type: 'timestamptz', nullable: true })
  endedAt!: Date | null;

  @Column({ name: 'end_reason', type: 'text', nullable: true })
  endReason!: SessionEndReason | null;

  @Column({ name: 'created_at', type: 'timestamptz' })
  createdAt!: Date;
}

export type SessionEndReason = 'logout' | 'reuse' | 'admin' | 'disabled';
