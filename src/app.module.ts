import { type DynamicModule, Module } from '@nestjs/common';
import { AccessModule } from './access/access.module.js';
import { AdminModule } from './admin/admin.module.js';
import { AppCredentialsModule } from './app-credentials/app-credentials.module.js';
import { AuditModule } from './audit/audit.module.js';
import { AuthModule } from './auth/auth.module.js';
import { StartWatch } from './common/start-watch.js';
import { ConfigModule } from './config/config.module.js';
import type { Environment } from './config/environment.js';
import { KeysModule } from './keys/keys.module.js';
import { CryptoModule } from './crypto/crypto.module.js';
import { DatabaseModule } from './database/database.module.js';
import { HealthModule } from './health/health.module.js';
import { LoggingModule } from './logging/logging.module.js';
import { MaintenanceModule } from './maintenance/maintenance.module.js';
import { MetricsModule } from './metrics/metrics.module.js';
import { NodesModule } from './nodes/nodes.module.js';
import { TokensModule } from './tokens/tokens.module.js';
import { UsersModule } from './users/users.module.js';
import { VerifiersModule } from './verifiers/verifiers.module.js';

/** Imports every room, from the lowest floor to the highest. */
@Module({})
export class AppModule {
  static forRoot(environment: Environment, watch = new StartWatch()): DynamicModule {
    return {
      module: AppModule,
      imports: [
        // Used by every room
        ConfigModule.forRoot(environment, watch),
        LoggingModule,
        CryptoModule,
        DatabaseModule,
        AccessModule,
        KeysModule,
        AuditModule,
        MetricsModule,
        // The data, and the doors that are checked against it
        UsersModule,
        TokensModule,
        AppCredentialsModule,
        NodesModule,
        HealthModule,
        // Use cases that combine them
        AuthModule,
        AdminModule,
        VerifiersModule,
        MaintenanceModule,
      ],
    };
  }
}
