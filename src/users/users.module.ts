import { Module } from '@nestjs/common';
import { AccessModule } from '../access/access.module.js';
import { AuditModule } from '../audit/audit.module.js';
import { CryptoModule } from '../crypto/crypto.module.js';
import { KeysModule } from '../keys/keys.module.js';
import { TypeOrmModule } from '@nestjs/typeorm';
import { PasswordPolicy } from './password-policy.js';
import { PasswordVerifier } from './password-verifier.js';
import { User } from './user.entity.js';
import { UsersController } from './users.controller.js';
import { UsersService } from './users.service.js';

@Module({
  imports: [AccessModule, AuditModule, CryptoModule, KeysModule, TypeOrmModule.forFeature([User])],
  controllers: [UsersController],
  providers: [UsersService, PasswordVerifier, PasswordPolicy],
  exports: [UsersService, PasswordVerifier],
})
export class UsersModule {}
