/**
 * A signing key of ES256: its states, its row, and how long it lives. It is shown in the JWKS for longer than the JWKS may
 * be cached before it signs, and for as long as its tokens live afterwards.
 */
import { Column, Entity, Index, PrimaryColumn, Unique } from 'typeorm';
import { addSeconds } from '../common/clock.js';
import type { Environment } from '../config/environment.js';
import type { Encrypted } from '../crypto/secret-box.js';

/**
 * next: shown in the JWKS, and does not sign yet. active: signs. retired: no longer signs, and its tokens stay valid until
 * they expire. revoked: its tokens are refused.
 */
export type SigningKeyState = 'next' | 'active' | 'retired' | 'revoked';

/** At most one key is next, and at most one is active. */
@Entity('signing_keys')
@Unique('signing_keys_kid_key', ['kid'])
@Index('signing_keys_state_key', { synchronize: false })
export class SigningKey {
  @PrimaryColumn({ type: 'uuid', primaryKeyConstraintName: 'signing_keys_pkey' }) id!: string;
  @Column({ type: 'text' }) kid!: string;
  @Column({ type: 'text' }) algorithm!: 'ES256';
  @Column({ type: 'text' }) state!: SigningKeyState;

  /** Null once no token needs it. */
  @Column({ name: 'encrypted_private_key', type: 'bytea', nullable: true, select: false })
  encryptedPrivateKey!: Encrypted | null;

  @Column({ name: 'created_at', type: 'timestamptz' }) createdAt!: Date;
  @Column({ name: 'activated_at', type: 'timestamptz', nullable: true }) activatedAt!: Date | null;
  @Column({ name: 'retired_at', type: 'timestamptz', nullable: true }) retiredAt!: Date | null;
  @Column({ name: 'revoked_at', type: 'timestamptz', nullable: true }) revokedAt!: Date | null;
}

/** How long the JWKS may be cached. */
export const JWKS_MAX_AGE_SECONDS = 300;
/** How long a key is shown before it signs. Libraries cache a JWKS for 10 minutes by default. */
const PUBLICATION_SECONDS = 900;
/** Covers clocks that differ, keys that a replica has not reread yet, and the interval in which uses are recorded. */
const MARGIN_SECONDS = 600;

/** No token that was signed earlier is still valid. */
export function getOldestIssuedAt({ accessTokenExpireMinutes }: Environment, now: Date): Date {
  return addSeconds(now, -(accessTokenExpireMinutes * 60 + MARGIN_SECONDS));
}

export function getSigningStart(createdAt: Date): Date {
  return addSeconds(createdAt, PUBLICATION_SECONDS);
}
