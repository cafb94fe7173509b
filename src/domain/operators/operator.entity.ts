import { Check, Column, Entity, Index, PrimaryColumn } from 'typeorm';
import type { OperatorScope } from '../../foundation/common/names.js';
import { KeyColumns } from '../keys/key-record.js';

@Entity('operators')
@Index('operators_live_name_key', ['name'], { unique: true, where: 'revoked_at IS NULL' })
@Index('operators_key_digest_key', ['keyDigest'], { unique: true })
@Index('operators_previous_key_digest_idx', ['previousKeyDigest'], { where: 'previous_key_digest IS NOT NULL' })
@Check('operators_name_check', 'name = lower(name)')
@Check('operators_scopes_check', 'cardinality(scopes) > 0')
export class Operator extends KeyColumns {
  @PrimaryColumn({ type: 'uuid', primaryKeyConstraintName: 'operators_pkey' }) declare id: string;

  /** In canonical form, and never changed. */
  @Column({ type: 'text' }) name!: string;
  @Column({ type: 'text', array: true }) scopes!: OperatorScope[];
}
