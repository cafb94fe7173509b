import { Module } from '@nestjs/common';
import { AccessModule } from '../access/doors.js';
import { PasswordsModule } from '../passwords/passwords.module.js';
import { RevocationModule } from '../revocation/revocation-feed.js';
import { TokensModule } from '../tokens/tokens.module.js';
import { UsersModule } from '../users/users.module.js';
import { AccountController } from './account.controller.js';
import { AccountService } from './account.service.js';

@Module({
  imports: [PasswordsModule, AccessModule, RevocationModule, UsersModule, TokensModule],
  controllers: [AccountController],
  providers: [AccountService],
})
export class AccountModule {}
