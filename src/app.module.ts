import { type DynamicModule, Module } from '@nestjs/common';
import { AccessModule } from './foundation/access/doors.js';
import { AccountModule } from './api/account/account.js';
import { AdminModule } from './api/admin/admin.module.js';
import { AppCredentialsModule } from './domain/app-credentials/app-credentials.module.js';
import { AuditModule } from './domain/audit/audit-log.js';
import { AuthModule } from './api/auth/auth.js';
import { StartWatch } from './foundation/common/start-watch.js';
import { ConsoleModule } from './console/console.module.js';
import { ConfigModule } from './foundation/config/config.module.js';
import type { Environment } from './foundation/config/environment.js';
import { DatabaseModule } from './foundation/database/database.module.js';
import { HealthModule } from './api/health/health.js';
import { LoggingModule } from './foundation/logging/log.js';
import { MaintenanceModule } from './domain/maintenance/maintenance.js';
import { MetricsModule } from './foundation/metrics/metrics.module.js';
import { NodesModule } from './domain/nodes/nodes.module.js';
import { OperatorsModule } from './domain/operators/operators.module.js';
import { RecoveryModule } from './api/recovery/recovery.js';
import { RevocationModule } from './domain/revocation/revocation-feed.js';
import { SecondFactorsModule } from './domain/second-factors/second-factors.module.js';
import { SigningKeysModule } from './domain/signing-keys/signing-keys.module.js';
import { ThrottlingModule } from './foundation/throttling/throttling.module.js';
import { TokensModule } from './domain/tokens/user-door.js';
import { UsersModule } from './domain/users/users.controller.js';
import { InternalModule } from './api/internal/internal.module.js';

/** The table of contents. Mail, passwords and the other lower rooms are imported by the modules that use them. */
@Module({})
export class AppModule {
  static forRoot(environment: Environment, watch = new StartWatch()): DynamicModule {
    return {
      module: AppModule,
      imports: [
        // Global
        ConfigModule.forRoot(environment, watch),
        LoggingModule,
        DatabaseModule,
        MetricsModule,
        AccessModule,
        ThrottlingModule,
        RevocationModule,
        AuditModule,
        // Express compares the path of a request with the routes in this order: the most called come first.
        NodesModule,
        AppCredentialsModule,
        TokensModule,
        InternalModule,
        // The other rooms of data
        UsersModule,
        SigningKeysModule,
        OperatorsModule,
        HealthModule,
        SecondFactorsModule,
        // Use cases that combine them
        AuthModule,
        AccountModule,
        RecoveryModule.forRoot(environment),
        AdminModule,
        ConsoleModule.forRoot(environment),
        MaintenanceModule,
      ],
    };
  }
}
