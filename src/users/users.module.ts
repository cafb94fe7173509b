import { Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { AccessModule } from '../access/doors.js';
import { AuditModule } from '../audit/audit.module.js';
import { RevocationModule } from '../revocation/revocation-feed.js';
import { MailModule } from '../mail/mail.module.js';
import { PasswordsModule } from '../passwords/passwords.module.js';
import { OneTimeTokens } from './one-time-tokens.js';
import { OwnAccount } from './own-account.js';
import { Registration } from './registration.js';
import { UsersController } from './users.controller.js';
import { User, UsersService } from './users.service.js';

@Module({
  imports: [AccessModule, AuditModule, RevocationModule, MailModule, PasswordsModule, TypeOrmModule.forFeature([User])],
  controllers: [UsersController],
  providers: [UsersService, Registration, OwnAccount, OneTimeTokens],
  exports: [UsersService, Registration, OwnAccount, OneTimeTokens],
})
export class UsersModule {}
