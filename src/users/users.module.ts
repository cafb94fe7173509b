import { Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { PasswordPolicy } from './password-policy.js';
import { PasswordVerifier } from './password-verifier.js';
import { User } from './user.entity.js';
import { UsersController } from './users.controller.js';
import { UsersService } from './users.service.js';

@Module({
  imports: [TypeOrmModule.forFeature([User])],
  controllers: [UsersController],
  providers: [UsersService, PasswordVerifier, PasswordPolicy],
  exports: [UsersService, PasswordVerifier],
})
export class UsersModule {}
