import { Global, Module } from '@nestjs/common';
import { Environment } from '../config/environment.js';
import { ChangeLog } from './change-feed.js';
import { Freshness } from './freshness.js';
import { RevocationLease, SYSTEM_CLOCKS } from './lease.js';
import { LeaseAnnouncement, Propagation } from './propagation.js';
import { RevocationFeed } from './revocation-feed.js';

const MS_PER_SECOND = 1_000;

@Global()
@Module({
  providers: [
    ChangeLog,
    Freshness,
    Propagation,
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
  ],
  exports: [ChangeLog, Freshness, RevocationFeed, RevocationLease, Propagation],
})
export class RevocationModule {}
