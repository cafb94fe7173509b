import type { FactoryProvider, Type } from '@nestjs/common';
import { getRepositoryToken } from '@nestjs/typeorm';
import type { Repository } from 'typeorm';
import { AuditLog } from '../audit/audit-log.js';
import { Clock } from '../common/clock.js';
import { Environment } from '../config/environment.js';
import { Database } from '../database/database.js';
import { Log } from '../logging/log.js';
import { KeyCache } from './cache/key-cache.js';
import type { KeyColumns } from './key-columns.js';
import type { KeyTable } from './key-statements.js';
import { KeyStore } from './key-store.js';
import { Propagation } from './cache/propagation.js';
import { RevocationLease } from './cache/revocation-lease.js';

/** The key store of one table, under an injection token. */
export function provideKeyStore<Entity extends KeyColumns>(
  token: symbol,
  entity: Type<Entity>,
  table: KeyTable,
): FactoryProvider {
  return {
    provide: token,
    inject: [getRepositoryToken(entity), Database, RevocationLease, Propagation, AuditLog, Environment, Clock, Log],
    useFactory: (
      repository: Repository<Entity>,
      database: Database,
      lease: RevocationLease,
      propagation: Propagation,
      audit: AuditLog,
      { credentialMemorySize }: Environment,
      clock: Clock,
      log: Log,
    ) => {
      const cache = new KeyCache<object>(table.door, lease, credentialMemorySize);
      return new KeyStore(table, repository, database, cache, propagation, audit, clock, log);
    },
  };
}
