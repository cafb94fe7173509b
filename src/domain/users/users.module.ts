import { Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { HouseholdsModule } from '../households/households.module.js';
import { TokensModule } from '../tokens/tokens.module.js';
import { Registration } from './registration.js';
import { UserChanges } from './user-changes.js';
import { OneTimeTokens } from './one-time-tokens.js';
import { UniformRegistration } from './uniform-registration.js';
import { UsersService } from './users.service.js';
import { User } from './user.entity.js';
import { MailModule } from '../mail/mail.module.js';
import { PasswordsModule } from '../passwords/passwords.module.js';

const SERVICES = [UsersService, UserChanges, Registration, UniformRegistration, OneTimeTokens];

@Module({
  imports: [HouseholdsModule, MailModule, PasswordsModule, TokensModule, TypeOrmModule.forFeature([User])],
  providers: SERVICES,
  exports: SERVICES,
})
export class UsersModule {}
