import { Module } from '@nestjs/common';
import { computeRevocationWaitMs } from '../config/lease.js';
import { Environment } from '../config/environment.js';
import { Database } from '../database/database.js';
import { Log } from '../logging/log.js';
import { ChangeLog } from './change-feed.js';
import { Freshness } from './freshness.js';
import { RevocationLease, SYSTEM_CLOCKS } from './lease.js';
import { LeaseAnnouncement, Propagation } from './propagation.js';
import { RevocationFeed } from './revocation-feed.js';

const MS_PER_SECOND = 1_000;

@Module({
  providers: [
    ChangeLog,
    Freshness,
    RevocationFeed,
    {
      provide: LeaseAnnouncement,
      inject: [Environment],
      useFactory: ({ revocationLeaseMs }: Environment) => new LeaseAnnouncement(revocationLeaseMs),
    },
    {
      provide: RevocationLease,
      inject: [Environment],
      useFactory: ({ revocationLeaseMs, outageGraceSeconds }: Environment) =>
        new RevocationLease(
          { leaseMs: revocationLeaseMs, outageGraceMs: outageGraceSeconds * MS_PER_SECOND },
          SYSTEM_CLOCKS,
        ),
    },
    {
      provide: Propagation,
      inject: [Environment, Database, Log],
      useFactory: ({ revocationLeaseMs, revocationWaitMs }: Environment, database: Database, log: Log) => {
        // Without a lease, verifiers use a fresh verdict for as long as the wait: it needs the margin of a lease.
        const waitMs = revocationLeaseMs > 0 ? revocationWaitMs : computeRevocationWaitMs(revocationWaitMs);
        return new Propagation(waitMs, database, log);
      },
    },
  ],
  exports: [ChangeLog, Freshness, RevocationFeed, RevocationLease, Propagation],
})
export class RevocationModule {}
