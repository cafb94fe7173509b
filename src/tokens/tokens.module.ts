import { Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { SigningKeysModule } from '../signing-keys/signing-keys.module.js';
import { AccessTokens } from './access-tokens.js';
import { NewSessions } from './new-sessions.js';
import { RefreshTokens } from './refresh-token.js';
import { Session, SessionsService } from './sessions.service.js';
import { TokenRotation } from './token-rotation.js';
import { UserStrategy, ValidateUserController } from './user-door.js';

@Module({
  imports: [TypeOrmModule.forFeature([Session]), SigningKeysModule],
  controllers: [ValidateUserController],
  providers: [AccessTokens, RefreshTokens, NewSessions, SessionsService, TokenRotation, UserStrategy],
  exports: [AccessTokens, NewSessions, SessionsService, TokenRotation],
})
export class TokensModule {}
