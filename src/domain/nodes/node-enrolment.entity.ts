import { Column, Entity, Index, PrimaryColumn, Unique } from 'typeorm';

@Entity('node_enrolments')
@Unique('node_enrolments_code_mac_key', ['codeMac'])
@Index('node_enrolments_expires_at_idx', ['expiresAt'])
export class NodeEnrolment {
  @PrimaryColumn({ type: 'uuid', primaryKeyConstraintName: 'node_enrolments_pkey' }) id!: string;
  @Column({ name: 'code_mac', type: 'bytea' }) codeMac!: Buffer;
  @Column({ name: 'household_id', type: 'uuid' }) householdId!: string;
  @Column({ type: 'text' }) room!: string;
  @Column({ type: 'text' }) name!: string;

  /** Of the node; null: all services. */
  @Column({ type: 'text', array: true, nullable: true }) targets!: string[] | null;
  @Column({ name: 'created_at', type: 'timestamptz' }) createdAt!: Date;
  @Column({ name: 'expires_at', type: 'timestamptz' }) expiresAt!: Date;
  @Column({ name: 'cancelled_at', type: 'timestamptz', nullable: true }) cancelledAt!: Date | null;
  @Column({ name: 'used_at', type: 'timestamptz', nullable: true }) usedAt!: Date | null;

  /** The node that used the code. */
  @Column({ name: 'node_id', type: 'uuid', nullable: true }) nodeId!: string | null;
  @Column({ name: 'retry_mac', type: 'bytea', nullable: true }) retryMac!: Buffer | null;
}
