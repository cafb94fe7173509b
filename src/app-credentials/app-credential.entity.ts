import { Column, Entity, Index, PrimaryColumn } from 'typeorm';
import { KeyColumns } from '../keys/key-table.js';

/** The credential that one service, the caller, presents to another, the target. */
@Entity('app_credentials')
@Index('app_credentials_live_pair_key', ['caller', 'target'], { unique: true, where: 'revoked_at IS NULL' })
@Index('app_credentials_dead_at_idx', { synchronize: false })
export class AppCredential extends KeyColumns {
  @PrimaryColumn({ type: 'uuid', primaryKeyConstraintName: 'app_credentials_pkey' })
  declare id: string;

  @Column({ type: 'text' })
  caller!: string;

  @Column({ type: 'text' })
  target!: string;
}
