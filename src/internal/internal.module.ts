/**
 * What other services ask instead of, or besides, one validation for each request: the feed of changes for the verifiers
 * that they embed, authorization for gateways, and introspection (RFC 7662).
 * Invariant (docs/decisions/0044): when the call that revoked a credential has answered, no verifier accepts it, because
 * no lease is handed on for longer than this replica holds it.
 */
import { Module } from '@nestjs/common';
import { AppCredentialsModule } from '../app-credentials/app-credentials.module.js';
import { NodesModule } from '../nodes/nodes.module.js';
import { AuthorizeController } from './authorize.controller.js';
import { ChangesController } from './changes.controller.js';
import { ChangesService } from './changes.service.js';
import { IntrospectController } from './introspect.controller.js';

@Module({
  imports: [NodesModule, AppCredentialsModule],
  controllers: [ChangesController, AuthorizeController, IntrospectController],
  providers: [ChangesService],
})
export class InternalModule {}
