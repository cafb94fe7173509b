import { Column, Entity, Index, PrimaryColumn } from 'typeorm';
import { KeyColumns } from '../keys/key-record.js';

@Entity('nodes')
@Index('nodes_household_id_idx', ['householdId', 'id'])
@Index('nodes_previous_key_expires_at_idx', ['previousKeyExpiresAt'], { where: 'previous_key_expires_at IS NOT NULL' })
@Index('nodes_dead_at_idx', { synchronize: false })
@Index('nodes_search_idx', { synchronize: false })
export class Node extends KeyColumns {
  @PrimaryColumn({ type: 'uuid', primaryKeyConstraintName: 'nodes_pkey' }) declare id: string;
  @Column({ name: 'household_id', type: 'uuid' }) householdId!: string;
  @Column({ type: 'text' }) room!: string;
  @Column({ type: 'text' }) name!: string;

  /** The only services at which the node is accepted; null: all. */
  @Column({ type: 'text', array: true, nullable: true }) targets!: string[] | null;
}
