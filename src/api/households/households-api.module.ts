import { Module } from '@nestjs/common';
import { HouseholdsModule } from '../../domain/households/households.module.js';
import { SecondFactorsModule } from '../../domain/second-factors/second-factors.module.js';
import { HouseholdCallers } from './household-callers.js';
import { HouseholdNodesController } from './household-nodes.controller.js';
import { HouseholdsController } from './households.controller.js';
import { InvitationsController } from './invitations.controller.js';

@Module({
  imports: [HouseholdsModule, SecondFactorsModule],
  controllers: [HouseholdsController, InvitationsController, HouseholdNodesController],
  providers: [HouseholdCallers],
})
export class HouseholdsApiModule {}
