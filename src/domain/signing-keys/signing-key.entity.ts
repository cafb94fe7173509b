import { Column, Entity, Index, PrimaryColumn, Unique } from 'typeorm';
import type { Encrypted } from '../../foundation/crypto/secret-box.js';

/**
 * `next`: shown in the JWKS, and does not sign yet. `active`: signs. `retired`: no longer signs, but its tokens stay
 * valid until they expire. `revoked`: its tokens are refused.
 */
export type SigningKeyState = 'next' | 'active' | 'retired' | 'revoked';

/** At most one key is `next`, and at most one is `active`. */
@Entity('signing_keys')
@Unique('signing_keys_kid_key', ['kid'])
@Index('signing_keys_state_key', { synchronize: false })
export class SigningKey {
  @PrimaryColumn({ type: 'uuid', primaryKeyConstraintName: 'signing_keys_pkey' }) id!: string;
  @Column({ type: 'text' }) kid!: string;
  @Column({ type: 'text' }) algorithm!: 'ES256';
  @Column({ type: 'text' }) state!: SigningKeyState;

  /** Null when no valid token needs the key. */
  @Column({ name: 'encrypted_private_key', type: 'bytea', nullable: true, select: false })
  encryptedPrivateKey!: Encrypted | null;

  @Column({ name: 'created_at', type: 'timestamptz' }) createdAt!: Date;
  @Column({ name: 'activated_at', type: 'timestamptz', nullable: true }) activatedAt!: Date | null;
  @Column({ name: 'retired_at', type: 'timestamptz', nullable: true }) retiredAt!: Date | null;
  @Column({ name: 'revoked_at', type: 'timestamptz', nullable: true }) revokedAt!: Date | null;
}
