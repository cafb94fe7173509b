import { Column, Entity, Index, PrimaryColumn } from 'typeorm';

@Entity('households')
@Index('households_name_search_idx', { synchronize: false })
@Index('households_created_at_idx', ['createdAt', 'id'])
export class Household {
  @PrimaryColumn({ type: 'uuid', primaryKeyConstraintName: 'households_pkey' }) id!: string;

  /** Null: a node or an enrolment named the household first, and no person has given it a name. */
  @Column({ type: 'text', nullable: true }) name!: string | null;
  @Column({ name: 'created_at', type: 'timestamptz' }) createdAt!: Date;
  @Column({ name: 'updated_at', type: 'timestamptz' }) updatedAt!: Date;
}
