import { Column, Entity, Index, PrimaryColumn } from 'typeorm';
import { KeyColumns } from '../keys/key-table.js';

/** An edge device in a household. */
@Entity('nodes')
@Index('nodes_household_id_idx', ['householdId', 'id'])
@Index('nodes_dead_at_idx', { synchronize: false })
export class NodeDevice extends KeyColumns {
  @PrimaryColumn({ type: 'uuid', primaryKeyConstraintName: 'nodes_pkey' })
  declare id: string;

  @Column({ name: 'household_id', type: 'uuid' })
  householdId!: string;

  @Column({ type: 'text' })
  room!: string;

  @Column({ type: 'text' })
  name!: string;
}
