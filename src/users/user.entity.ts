import { Check, Column, Entity, PrimaryColumn, Unique } from 'typeorm';
import type { PasswordHash } from '../crypto/password-hasher.js';

@Entity('users')
@Check('users_email_canonical_check', 'email = lower(email)')
@Unique('users_email_key', ['email'])
export class User {
  @PrimaryColumn({ type: 'uuid', primaryKeyConstraintName: 'users_pkey' })
  id!: string;

  @Column({ type: 'text' })
  email!: string;

  @Column({ name: 'password_hash', type: 'text' })
  passwordHash!: PasswordHash;

  /** When the password was set, not when it was rehashed. Strictly increasing; null for old and imported accounts. */
  @Column({ name: 'password_changed_at', type: 'timestamptz', precision: 3, nullable: true })
  passwordChangedAt!: Date | null;

  @Column({ name: 'is_active', type: 'boolean' })
  isActive!: boolean;

  /** When a link first proved an address of the account; at a change, not after any factor. Null: not proven. */
  @Column({ name: 'email_verified_at', type: 'timestamptz', nullable: true })
  emailVerifiedAt!: Date | null;

  /** Identifies the set of second factors. Null: it never changed. */
  @Column({ name: 'factors_changed_at', type: 'timestamptz', precision: 3, nullable: true })
  factorsChangedAt!: Date | null;

  @Column({ name: 'created_at', type: 'timestamptz' })
  createdAt!: Date;

  @Column({ name: 'updated_at', type: 'timestamptz' })
  updatedAt!: Date;
}
