import { Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { MailModule } from '../mail/mail.module.js';
import { PasswordsModule } from '../passwords/passwords.module.js';
import { OneTimeTokens } from './one-time-tokens.js';
import { Registration } from './registration.js';
import { UsersController } from './users.controller.js';
import { User, UsersService } from './users.service.js';

@Module({
  imports: [MailModule, PasswordsModule, TypeOrmModule.forFeature([User])],
  controllers: [UsersController],
  providers: [UsersService, Registration, OneTimeTokens],
  exports: [UsersService, Registration, OneTimeTokens],
})
export class UsersModule {}
