import { Module } from '@nestjs/common';
import { HouseholdsModule } from '../../domain/households/households.module.js';
import { PasswordsModule } from '../../domain/passwords/passwords.module.js';
import { HouseholdCallers } from './household-callers.js';
import { HouseholdDevicesController } from './household-devices.controller.js';
import { HouseholdsController } from './households.controller.js';
import { InvitationsController } from './invitations.controller.js';

@Module({
  imports: [HouseholdsModule, PasswordsModule],
  controllers: [HouseholdsController, InvitationsController, HouseholdDevicesController],
  providers: [HouseholdCallers],
})
export class HouseholdsApiModule {}
