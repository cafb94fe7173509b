import { Global, Module } from '@nestjs/common';
import { Environment } from '../../foundation/config/environment.js';
import { ChangeLog } from '../../../packages/lease/src/change-feed.js';
import { RevocationLease, SYSTEM_CLOCKS } from '../../../packages/lease/src/lease.js';
import { Freshness } from './freshness.js';
import { LeaseAnnouncement } from './lease-announcement.js';
import { Propagation } from './propagation.js';
import { RevocationFeed } from './revocation-feed.js';

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
        new RevocationLease({ leaseMs: revocationLeaseMs, outageGraceMs: outageGraceSeconds * 1_000 }, SYSTEM_CLOCKS),
    },
  ],
  exports: [ChangeLog, Freshness, RevocationFeed, RevocationLease, Propagation],
})
export class RevocationModule {}
