import { type DynamicModule, Module } from '@nestjs/common';
import { AccessModule } from './access/doors.js';
import { AccountModule } from './account/account.js';
import { AdminModule } from './admin/admin.module.js';
import { AppCredentialsModule } from './app-credentials/app-credentials.module.js';
import { AuditModule } from './audit/audit-log.js';
import { AuthModule } from './auth/auth.js';
import { StartWatch } from './common/start-watch.js';
import { ConsoleModule } from './console/console.module.js';
import { ConfigModule } from './config/config.module.js';
import type { Environment } from './config/environment.js';
import { DatabaseModule } from './database/database.module.js';
import { HealthModule } from './health/health.js';
import { LoggingModule } from './logging/log.js';
import { MaintenanceModule } from './maintenance/maintenance.js';
import { MetricsModule } from './metrics/metrics.module.js';
import { NodesModule } from './nodes/nodes.module.js';
import { OperatorsModule } from './operators/operators.service.js';
import { RecoveryModule } from './recovery/recovery.js';
import { RevocationModule } from './revocation/revocation-feed.js';
import { SecondFactorsModule } from './second-factors/second-factors.module.js';
import { SigningKeysModule } from './signing-keys/signing-keys.module.js';
import { ThrottlingModule } from './throttling/guess-throttles.js';
import { TokensModule } from './tokens/user-door.js';
import { UsersModule } from './users/users.controller.js';
import { InternalModule } from './internal/internal.module.js';

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
