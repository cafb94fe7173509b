import { Module } from '@nestjs/common';
import { SecondFactorsModule } from '../../domain/second-factors/second-factors.module.js';
import { TokensModule } from '../../domain/tokens/tokens.module.js';
import { UsersModule } from '../../domain/users/users.module.js';
import { AuthController } from './auth.controller.js';
import { EnrolmentLogins } from './enrolment-login.service.js';
import { LoginEnrolmentController } from './enrolment.controller.js';
import { AuthService } from './auth.service.js';
import { LoginService } from './login.service.js';
import { SecondFactorLogins } from './second-factor-login.service.js';
import { PasswordsModule } from '../../domain/passwords/passwords.module.js';

@Module({
  imports: [PasswordsModule, UsersModule, TokensModule, SecondFactorsModule],
  controllers: [AuthController, LoginEnrolmentController],
  providers: [LoginService, SecondFactorLogins, EnrolmentLogins, AuthService],
})
export class AuthModule {}
