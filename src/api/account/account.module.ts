import { Module } from '@nestjs/common';
import { MailModule } from '../../domain/mail/mail.module.js';
import { HouseholdsModule } from '../../domain/households/households.module.js';
import { PasswordsModule } from '../../domain/passwords/passwords.module.js';
import { SecondFactorsModule } from '../../domain/second-factors/second-factors.module.js';
import { TokensModule } from '../../domain/tokens/tokens.module.js';
import { UsersModule } from '../../domain/users/users.module.js';
import { AccountController } from './account.controller.js';
import { AccountDeletion } from './account-deletion.js';
import { PasskeysController } from './passkeys.controller.js';
import { PasswordChange } from './password-change.js';
import { TotpController } from './totp.controller.js';
import { UsersController } from './users.controller.js';

@Module({
  imports: [HouseholdsModule, MailModule, PasswordsModule, SecondFactorsModule, TokensModule, UsersModule],
  controllers: [UsersController, AccountController, TotpController, PasskeysController],
  providers: [PasswordChange, AccountDeletion],
})
export class AccountModule {}
