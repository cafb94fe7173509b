import { Module } from '@nestjs/common';
import { AuditModule } from '../audit/audit.module.js';
import { KeysModule } from '../keys/keys.module.js';
import { ThrottlingModule } from '../throttling/throttling.module.js';
import { TokensModule } from '../tokens/tokens.module.js';
import { UsersModule } from '../users/users.module.js';
import { AuthController } from './auth.controller.js';
import { AuthService } from './auth.service.js';

@Module({
  imports: [AuditModule, KeysModule, UsersModule, TokensModule, ThrottlingModule],
  controllers: [AuthController],
  providers: [AuthService],
})
export class AuthModule {}
