import { Module } from '@nestjs/common';
import { AuditModule } from '../audit/audit.module.js';
import { RevocationModule } from '../revocation/revocation-feed.js';
import { PasswordsModule } from '../passwords/passwords.module.js';
import { SecondFactorsModule } from '../second-factors/second-factors.module.js';
import { ThrottlingModule } from '../throttling/throttling.module.js';
import { TokensModule } from '../tokens/tokens.module.js';
import { UsersModule } from '../users/users.module.js';
import { AuthController } from './auth.controller.js';
import { AuthService, RegistrationService } from './auth.service.js';
import { LoginService, SecondFactorLogins } from './login.js';

@Module({
  imports: [
    PasswordsModule,
    AuditModule,
    RevocationModule,
    UsersModule,
    TokensModule,
    SecondFactorsModule,
    ThrottlingModule,
  ],
  controllers: [AuthController],
  providers: [RegistrationService, LoginService, SecondFactorLogins, AuthService],
})
export class AuthModule {}
