import { Module, type DynamicModule } from '@nestjs/common';
import { AccessModule } from '../access/doors.js';
import { AuditModule } from '../audit/audit.module.js';
import type { Environment } from '../config/environment.js';
import { PasswordsModule } from '../passwords/passwords.module.js';
import { isMailEnabled } from '../mail/mail-transport.js';
import { MailModule } from '../mail/mail.module.js';
import { RevocationModule } from '../revocation/revocation-feed.js';
import { SecondFactorsModule } from '../second-factors/second-factors.module.js';
import { ThrottlingModule } from '../throttling/throttling.module.js';
import { TokensModule } from '../tokens/tokens.module.js';
import { UsersModule } from '../users/users.module.js';
import { EmailConfirmations, PasswordResets } from './link-confirmations.js';
import { LinkMails, LinkRequests } from './links.js';
import { LinksController, OwnEmailController, PasswordResetController } from './recovery.controller.js';

@Module({})
export class RecoveryModule {
  static forRoot(environment: Environment): DynamicModule {
    // A guard would leave these paths in the router and in the OpenAPI document.
    const controllersWithMail = isMailEnabled(environment) ? [LinksController, OwnEmailController] : [];
    return {
      module: RecoveryModule,
      imports: [
        AccessModule,
        AuditModule,
        PasswordsModule,
        RevocationModule,
        MailModule,
        SecondFactorsModule,
        ThrottlingModule,
        TokensModule,
        UsersModule,
      ],
      controllers: [PasswordResetController, ...controllersWithMail],
      providers: [LinkRequests, LinkMails, PasswordResets, EmailConfirmations],
    };
  }
}
