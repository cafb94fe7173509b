import { Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { SigningKeysModule } from '../signing-keys/signing-keys.module.js';
import { AccessTokens } from './access-tokens.js';
import { NewSessions } from './new-sessions.js';
import { RefreshTokens, TokenRotation } from './refresh-tokens.js';
import { SessionsService } from './sessions.service.js';
import { Session } from './session.entity.js';
import { UserDoor } from './user.door.js';
import { UserStrategy } from './user.strategy.js';

@Module({
  imports: [TypeOrmModule.forFeature([Session]), SigningKeysModule],
  providers: [AccessTokens, RefreshTokens, NewSessions, SessionsService, TokenRotation, UserDoor, UserStrategy],
  exports: [AccessTokens, NewSessions, SessionsService, TokenRotation, UserDoor],
})
export class TokensModule {}
