/**
 * The operators' API: every route with `X-Admin-Key`, and that door. A controller's file begins with its requests and
 * responses; it translates between them and the services, and holds no rules. Every change is an audit event with the
 * operator as its actor.
 */
import { Module } from '@nestjs/common';
import { AccessModule } from '../access/doors.js';
import { AuditModule } from '../audit/audit.module.js';
import { RevocationModule } from '../revocation/revocation-feed.js';
import { AppCredentialsModule } from '../app-credentials/app-credentials.module.js';
import { NodesModule } from '../nodes/nodes.module.js';
import { SecondFactorsModule } from '../second-factors/second-factors.module.js';
import { ThrottlingModule } from '../throttling/throttling.module.js';
import { TokensModule } from '../tokens/tokens.module.js';
import { UsersModule } from '../users/users.module.js';
import { AdminStrategy } from './admin.strategy.js';
import { AppCredentialsAdminController } from './app-credentials.admin.controller.js';
import { AuditEventsAdminController } from './audit-events.admin.controller.js';
import { ExplanationsAdminController } from './explanations.admin.controller.js';
import { OperatorsModule } from '../operators/operators.module.js';
import { NodesAdminController } from './nodes.admin.controller.js';
import { OperatorsAdminController } from './operators.admin.controller.js';
import { UsersAdminController } from './users.admin.controller.js';

@Module({
  imports: [
    AccessModule,
    AuditModule,
    RevocationModule,
    UsersModule,
    TokensModule,
    AppCredentialsModule,
    NodesModule,
    OperatorsModule,
    SecondFactorsModule,
    ThrottlingModule,
  ],
  controllers: [
    UsersAdminController,
    AppCredentialsAdminController,
    NodesAdminController,
    OperatorsAdminController,
    ExplanationsAdminController,
    AuditEventsAdminController,
  ],
  providers: [AdminStrategy],
})
export class AdminModule {}
