import { Entity, Check, Unique, Index, PrimaryColumn, Column } from 'typeorm';
import type { PasswordHash } from '../passwords/password-hasher.js';

@Entity('users')
@Check('users_email_canonical_check', 'email = lower(email)')
@Unique('users_email_key', ['email'])
@Index('users_email_search_idx', { synchronize: false })
@Index('users_created_at_idx', ['createdAt'])
@Index('users_disabled_idx', ['id'], { where: 'NOT is_active' })
@Index('users_unverified_idx', ['id'], { where: 'email_verified_at IS NULL' })
export class User {
  @PrimaryColumn({ type: 'uuid', primaryKeyConstraintName: 'users_pkey' }) id!: string;
  @Column({ type: 'text' }) email!: string;
  @Column({ name: 'password_hash', type: 'text' }) passwordHash!: PasswordHash;

  /** When the password was last set; not changed by a rehash, and strictly increasing. Null for imported accounts. */
  @Column({ name: 'password_changed_at', type: 'timestamptz', precision: 3, nullable: true })
  passwordChangedAt!: Date | null;

  @Column({ name: 'is_active', type: 'boolean' }) isActive!: boolean;

  /** When the address of the account was proven. */
  @Column({ name: 'email_verified_at', type: 'timestamptz', nullable: true }) emailVerifiedAt!: Date | null;

  /** When the second factors last changed, which identifies their set. Null: they never changed. */
  @Column({ name: 'factors_changed_at', type: 'timestamptz', precision: 3, nullable: true })
  factorsChangedAt!: Date | null;

  @Column({ name: 'created_at', type: 'timestamptz' }) createdAt!: Date;
  @Column({ name: 'updated_at', type: 'timestamptz' }) updatedAt!: Date;
}
