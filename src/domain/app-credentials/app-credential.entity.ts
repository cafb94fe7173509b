import { Check, Column, Entity, Index, PrimaryColumn } from 'typeorm';
import { KeyColumns } from '../keys/key-record.js';

@Entity('app_credentials')
@Index('app_credentials_live_pair_key', ['caller', 'target'], { unique: true, where: 'revoked_at IS NULL' })
@Index('app_credentials_previous_key_expires_at_idx', ['previousKeyExpiresAt'], {
  where: 'previous_key_expires_at IS NOT NULL',
})
@Index('app_credentials_dead_at_idx', { synchronize: false })
@Check('app_credentials_for_users_check', 'NOT for_users OR scopes IS NOT NULL')
export class AppCredential extends KeyColumns {
  @PrimaryColumn({ type: 'uuid', primaryKeyConstraintName: 'app_credentials_pkey' }) declare id: string;
  @Column({ type: 'text' }) caller!: string;
  @Column({ type: 'text' }) target!: string;

  /** Null: every scope of the target. */
  @Column({ type: 'text', array: true, nullable: true }) scopes!: readonly string[] | null;

  /** Life of each key from its issue or rotation; null: `expiresAt` holds for the credential, and no rotation moves it. */
  @Column({ name: 'life_days', type: 'integer', nullable: true }) lifeDays!: number | null;

  /** When the scopes were last changed: none counts as unused for 30 days from then on. */
  @Column({ name: 'scopes_changed_at', type: 'timestamptz', nullable: true }) scopesChangedAt!: Date | null;

  /** The last use of each scope, in ISO 8601. */
  @Column({ name: 'scope_uses', type: 'jsonb', default: {} }) scopeUses!: Readonly<Record<string, string>>;

  /** Whether the caller gets tokens with which it acts for users at the target (RFC 8693). */
  @Column({ name: 'for_users', type: 'boolean', default: false }) forUsers!: boolean;

  /** When `forUsers` was last changed: it does not count as unused for 30 days from then on. */
  @Column({ name: 'for_users_changed_at', type: 'timestamptz', nullable: true }) forUsersChangedAt!: Date | null;

  /** When such a token was last issued, to an hour. */
  @Column({ name: 'for_users_used_at', type: 'timestamptz', nullable: true }) forUsersUsedAt!: Date | null;

  /** How often `forUsers` was turned on again; a trigger counts. Tokens for users of an earlier revision are not valid. */
  @Column({ name: 'for_users_revision', type: 'integer', default: 0, update: false }) forUsersRevision!: number;
}
