/**
 * The operators' API: the door of `X-Admin-Key` (admin.strategy.ts), and every route behind it. A controller's file begins with its requests and
 * responses; it translates between them and the services, and holds no rules. Every change is an audit event with the
 * operator as its actor.
 */
import { Module } from '@nestjs/common';
import { AppCredentialsModule } from '../../domain/app-credentials/app-credentials.module.js';
import { HouseholdsModule } from '../../domain/households/households.module.js';
import { NodesModule } from '../../domain/nodes/nodes.module.js';
import { OperatorsModule } from '../../domain/operators/operators.module.js';
import { SecondFactorsModule } from '../../domain/second-factors/second-factors.module.js';
import { TokensModule } from '../../domain/tokens/tokens.module.js';
import { UsersModule } from '../../domain/users/users.module.js';
import { AdminDoor } from './admin.door.js';
import { AdminStrategy } from './admin.strategy.js';
import { AppCredentialsAdminController } from './app-credentials.admin.controller.js';
import { AuditEventsAdminController } from './audit-events.admin.controller.js';
import { BackgroundWorkAdminController } from './background-work.admin.controller.js';
import { ConfigurationReviewAdminController } from './configuration-review.admin.controller.js';
import { EnrolmentsAdminController } from './enrolments.admin.controller.js';
import { EventSubscriptionsAdminController } from './event-subscriptions.admin.controller.js';
import { EventsModule } from '../../domain/events/events.module.js';
import { ExplanationsAdminController } from './explanations.admin.controller.js';
import { HouseholdsAdminController, InvitationsAdminController } from './households.admin.controller.js';
import { FindingsAdminController } from './findings.admin.controller.js';
import { HourlyCountsAdminController } from './hourly-counts.admin.controller.js';
import { IdentifyAdminController } from './identify.admin.controller.js';
import { NodesAdminController } from './nodes.admin.controller.js';
import { OperatorsAdminController } from './operators.admin.controller.js';
import { UsersAdminController } from './users.admin.controller.js';
import { MaintenanceModule } from '../../domain/maintenance/maintenance.module.js';
import { StatusModule } from '../../domain/status/status.module.js';

/** The console calls their routes by these names (console/admin-api.ts). */
export const ADMIN_CONTROLLERS = {
  users: UsersAdminController,
  appCredentials: AppCredentialsAdminController,
  enrolments: EnrolmentsAdminController,
  nodes: NodesAdminController,
  operators: OperatorsAdminController,
  explanations: ExplanationsAdminController,
  identify: IdentifyAdminController,
  auditEvents: AuditEventsAdminController,
  backgroundWork: BackgroundWorkAdminController,
  hourlyCounts: HourlyCountsAdminController,
  households: HouseholdsAdminController,
  invitations: InvitationsAdminController,
  configurationReview: ConfigurationReviewAdminController,
  findings: FindingsAdminController,
  eventSubscriptions: EventSubscriptionsAdminController,
} as const;

@Module({
  imports: [
    UsersModule,
    TokensModule,
    AppCredentialsModule,
    NodesModule,
    HouseholdsModule,
    OperatorsModule,
    SecondFactorsModule,
    MaintenanceModule,
    StatusModule,
    EventsModule,
  ],
  controllers: Object.values(ADMIN_CONTROLLERS),
  providers: [AdminDoor, AdminStrategy],
  exports: [AdminDoor],
})
export class AdminModule {}
