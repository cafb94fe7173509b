import { Column, Entity, Index, PrimaryColumn, Unique } from 'typeorm';
import { OneTimeCodeColumns } from '../keys/one-time-codes.js';

@Entity('node_enrolments')
@Unique('node_enrolments_code_mac_key', ['codeMac'])
@Index('node_enrolments_expires_at_idx', ['expiresAt'])
@Index('node_enrolments_household_id_idx', ['householdId', 'id'])
@Index('node_enrolments_issued_by_idx', ['issuedBy'], { where: 'issued_by IS NOT NULL' })
export class NodeEnrolment extends OneTimeCodeColumns {
  @PrimaryColumn({ type: 'uuid', primaryKeyConstraintName: 'node_enrolments_pkey' }) id!: string;
  @Column({ name: 'household_id', type: 'uuid' }) householdId!: string;
  @Column({ type: 'text' }) room!: string;
  @Column({ type: 'text' }) name!: string;

  /** The only services at which the node will be accepted; null: all. */
  @Column({ type: 'text', array: true, nullable: true }) targets!: string[] | null;

  /** The admin of the household whose departure cancels the enrolment; null: an operator issued it. */
  @Column({ name: 'issued_by', type: 'uuid', nullable: true }) issuedBy!: string | null;

  /** The node that used the code. */
  @Column({ name: 'node_id', type: 'uuid', nullable: true }) nodeId!: string | null;
  @Column({ name: 'retry_mac', type: 'bytea', nullable: true }) retryMac!: Buffer | null;
}
