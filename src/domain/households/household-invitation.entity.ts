import { Column, Entity, Index, PrimaryColumn, Unique } from 'typeorm';
import { OneTimeCodeColumns } from '../keys/one-time-codes.js';

@Entity('household_invitations')
@Unique('household_invitations_code_mac_key', ['codeMac'])
@Index('household_invitations_household_id_idx', ['householdId', 'id'])
@Index('household_invitations_issued_by_idx', ['issuedBy'])
@Index('household_invitations_expires_at_idx', ['expiresAt'])
export class HouseholdInvitation extends OneTimeCodeColumns {
  @PrimaryColumn({ type: 'uuid', primaryKeyConstraintName: 'household_invitations_pkey' }) id!: string;
  @Column({ name: 'household_id', type: 'uuid' }) householdId!: string;

  /** The admin whose departure cancels the invitation. */
  @Column({ name: 'issued_by', type: 'uuid' }) issuedBy!: string;

  /** The user who became a member with it. */
  @Column({ name: 'used_by', type: 'uuid', nullable: true }) usedBy!: string | null;
}
