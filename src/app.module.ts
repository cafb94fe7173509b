import { type DynamicModule, Module } from '@nestjs/common';
import { AccountModule } from './api/account/account.module.js';
import { AdminModule } from './api/admin/admin.module.js';
import { AuthModule } from './api/auth/auth.module.js';
import { StartWatch } from './foundation/common/start-watch.js';
import { ConsoleModule } from './console/console.module.js';
import { ConfigModule } from './foundation/config/config.module.js';
import type { Environment } from './foundation/config/environment.js';
import { DatabaseModule } from './foundation/database/database.module.js';
import { MetricsModule } from './foundation/metrics/metrics.module.js';
import { HouseholdsApiModule } from './api/households/households-api.module.js';
import { NodesApiModule } from './api/nodes/nodes-api.module.js';
import { RecoveryModule } from './api/recovery/recovery.module.js';
import { ThrottlingModule } from './foundation/throttling/throttling.module.js';
import { WellKnownModule } from './api/well-known/well-known.module.js';
import { InternalModule } from './api/internal/internal.module.js';
import { HealthModule } from './api/health/health.module.js';
import { AuditModule } from './domain/audit/audit.module.js';
import { KeysModule } from './domain/keys/keys.module.js';
import { RevocationModule } from './domain/revocation/revocation.module.js';
import { MaintenanceModule } from './domain/maintenance/maintenance.module.js';
import { LoggingModule } from './foundation/logging/logging.module.js';
import { AccessModule } from './foundation/access/access.module.js';

/** The table of contents. Modules of api/ import the modules of domain/ that they use. */
@Module({})
export class AppModule {
  static forRoot(environment: Environment, watch = new StartWatch()): DynamicModule {
    return {
      module: AppModule,
      imports: [
        ConfigModule.forRoot(environment, watch),
        LoggingModule,
        DatabaseModule,
        MetricsModule,
        AccessModule,
        ThrottlingModule,
        RevocationModule,
        AuditModule,
        KeysModule,
        // Express compares the path of a request with the routes in this order, so the most called come first.
        InternalModule,
        AuthModule,
        NodesApiModule,
        AccountModule,
        HouseholdsApiModule,
        HealthModule,
        WellKnownModule,
        RecoveryModule.forRoot(environment),
        AdminModule,
        ConsoleModule.forRoot(environment),
        MaintenanceModule,
      ],
    };
  }
}
