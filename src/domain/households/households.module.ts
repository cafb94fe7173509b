import { Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { NodesModule } from '../nodes/nodes.module.js';
import { Departures } from './departures.js';
import { HouseholdActions } from './household-actions.js';
import { HouseholdLifecycle } from './household-lifecycle.js';
import { HouseholdNodesService } from './household-nodes.service.js';
import { HouseholdInvitation } from './household-invitation.entity.js';
import { Household } from './household.entity.js';
import { HouseholdsService } from './households.service.js';
import { InvitationsService } from './invitations.service.js';
import { MembersService } from './members.service.js';

const SERVICES = [
  Departures,
  HouseholdLifecycle,
  HouseholdNodesService,
  HouseholdsService,
  InvitationsService,
  MembersService,
];

@Module({
  imports: [TypeOrmModule.forFeature([Household, HouseholdInvitation]), NodesModule],
  providers: [HouseholdActions, ...SERVICES],
  exports: SERVICES,
})
export class HouseholdsModule {}
