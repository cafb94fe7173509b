import { Module } from '@nestjs/common';
import { SecondFactorsModule } from '../../domain/second-factors/second-factors.module.js';
import { TokensModule } from '../../domain/tokens/tokens.module.js';
import { UsersModule } from '../../domain/users/users.module.js';
import { NodesModule } from '../../domain/nodes/nodes.module.js';
import { EnrolController } from './enrol.controller.js';
import { AuthController } from './auth.controller.js';
import { AuthService } from './auth.service.js';
import { LoginService } from './login.service.js';
import { SecondFactorLogins } from './second-factor-login.service.js';
import { PasswordsModule } from '../../domain/passwords/passwords.module.js';

@Module({
  imports: [PasswordsModule, UsersModule, TokensModule, SecondFactorsModule, NodesModule],
  controllers: [AuthController, EnrolController],
  providers: [LoginService, SecondFactorLogins, AuthService],
})
export class AuthModule {}
