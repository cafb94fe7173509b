import { Module, type DynamicModule } from '@nestjs/common';
import { isMailEnabled } from '../../domain/mail/mail-transport.js';
import { SecondFactorsModule } from '../../domain/second-factors/second-factors.module.js';
import { TokensModule } from '../../domain/tokens/tokens.module.js';
import { UsersModule } from '../../domain/users/users.module.js';
import type { Environment } from '../../foundation/config/environment.js';
import { LinkRequests, LinkMails } from './links.service.js';
import { LinksController, OwnEmailController, PasswordResetController } from './recovery.controller.js';
import { PasswordResets, EmailConfirmations } from './recovery.service.js';
import { MailModule } from '../../domain/mail/mail.module.js';
import { PasswordsModule } from '../../domain/passwords/passwords.module.js';

@Module({})
export class RecoveryModule {
  static forRoot(environment: Environment): DynamicModule {
    // The controllers are left out, because a guard would leave their paths in the router and in the OpenAPI document.
    const controllersWithMail = isMailEnabled(environment) ? [LinksController, OwnEmailController] : [];
    return {
      module: RecoveryModule,
      imports: [PasswordsModule, MailModule, SecondFactorsModule, TokensModule, UsersModule],
      controllers: [PasswordResetController, ...controllersWithMail],
      providers: [LinkRequests, LinkMails, PasswordResets, EmailConfirmations],
    };
  }
}
