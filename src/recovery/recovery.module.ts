import { Module, type DynamicModule } from '@nestjs/common';
import { AccessModule } from '../access/doors.js';
import { AuditModule } from '../audit/audit.module.js';
import type { Environment } from '../config/environment.js';
import { RevocationModule } from '../revocation/revocation.module.js';
import { MailModule } from '../mail/mail.module.js';
import { isMailEnabled } from '../mail/mail-transport.js';
import { PasswordsModule } from '../passwords/passwords.module.js';
import { SecondFactorsModule } from '../second-factors/second-factors.module.js';
import { ThrottlingModule } from '../throttling/throttling.module.js';
import { TokensModule } from '../tokens/tokens.module.js';
import { UsersModule } from '../users/users.module.js';
import { LinkConfirmations } from './link-confirmations.js';
import { LinkMails } from './link-mails.js';
import { LinkRequests } from './link-requests.js';
import { LinksController } from './links.controller.js';
import { OwnEmailController } from './own-email.controller.js';
import { PasswordResetController } from './password-reset.controller.js';

@Module({})
export class RecoveryModule {
  static forRoot(environment: Environment): DynamicModule {
    // Not a guard: without mail these paths are unknown, also to the router and to the OpenAPI document.
    const controllersWithMail = isMailEnabled(environment) ? [LinksController, OwnEmailController] : [];
    return {
      module: RecoveryModule,
      imports: [
        PasswordsModule,
        AccessModule,
        AuditModule,
        RevocationModule,
        MailModule,
        SecondFactorsModule,
        ThrottlingModule,
        TokensModule,
        UsersModule,
      ],
      controllers: [PasswordResetController, ...controllersWithMail],
      providers: [LinkRequests, LinkConfirmations, LinkMails],
    };
  }
}
