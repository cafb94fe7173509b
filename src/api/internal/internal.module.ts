/**
 * What other services ask: validations of credentials, the feed of changes for the verifiers that they embed,
 * authorization for gateways, and introspection (RFC 7662). Terms: poll, cursor, lease, use (docs/glossary.md).
 * Invariant: when the call that revoked a credential has answered, no verifier accepts it, because no lease is handed
 * on for longer than this replica holds it (docs/decisions/0044).
 */
import { Module } from '@nestjs/common';
import { AppCredentialsModule } from '../../domain/app-credentials/app-credentials.module.js';
import { DelegationModule } from '../../domain/delegation/delegation.module.js';
import { HouseholdsModule } from '../../domain/households/households.module.js';
import { NodesModule } from '../../domain/nodes/nodes.module.js';
import { StatusModule } from '../../domain/status/status.module.js';
import { AuthorizeController } from './authorize.controller.js';
import { HouseholdsInternalController } from './households.controller.js';
import { IntrospectController } from './introspect.controller.js';
import { TokenController } from './token.controller.js';
import { ChangesService } from './changes.service.js';
import { TokensModule } from '../../domain/tokens/tokens.module.js';
import { UsersModule } from '../../domain/users/users.module.js';
import { EventsController } from './events.controller.js';
import { EventsModule } from '../../domain/events/events.module.js';
import { UsersInternalController } from './users.controller.js';
import { ValidateAppController } from './validate-app.controller.js';
import { ValidateNodeController } from './validate-node.controller.js';
import { ValidateUserController } from './validate-user.controller.js';
import { ChangesController } from './changes.controller.js';

@Module({
  imports: [
    NodesModule,
    AppCredentialsModule,
    TokensModule,
    DelegationModule,
    HouseholdsModule,
    UsersModule,
    StatusModule,
    EventsModule,
  ],
  // Express compares a path with the routes in this order, so the most called come first.
  controllers: [
    ValidateNodeController,
    ValidateAppController,
    ValidateUserController,
    ChangesController,
    AuthorizeController,
    IntrospectController,
    TokenController,
    HouseholdsInternalController,
    UsersInternalController,
    EventsController,
  ],
  providers: [ChangesService],
})
export class InternalModule {}
