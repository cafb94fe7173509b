import { Module } from '@nestjs/common';
import { AccessModule } from '../access/doors.js';
import { AuditModule } from '../audit/audit.module.js';
import { RevocationModule } from '../revocation/revocation.module.js';
import { MetricsModule } from '../metrics/metrics.module.js';
import { JwtModule } from '@nestjs/jwt';
import { TypeOrmModule } from '@nestjs/typeorm';
import { Environment } from '../config/environment.js';
import { SigningKeysModule } from '../signing-keys/signing-keys.module.js';
import { AccessTokens } from './access-tokens.js';
import { LiveSessionsGauge } from './live-sessions.gauge.js';
import { NewSessions } from './new-sessions.js';
import { OwnSessions } from './own-sessions.js';
import { RefreshTokens } from './refresh-token.js';
import { Session } from './session.entity.js';
import { SessionsService } from './sessions.service.js';
import { TokenKeys } from './token-keys.js';
import { TokenRotation } from './token-rotation.js';
import { ValidateUserController } from './validate-user.controller.js';
import { UserStrategy } from './user.strategy.js';

@Module({
  imports: [
    AccessModule,
    AuditModule,
    RevocationModule,
    MetricsModule,
    TypeOrmModule.forFeature([Session]),
    SigningKeysModule,
    JwtModule.registerAsync({
      inject: [Environment],
      useFactory: ({ jwtIssuer, jwtAudience }: Environment) => ({
        verifyOptions: { issuer: jwtIssuer, ...(jwtAudience !== undefined && { audience: jwtAudience }) },
      }),
    }),
  ],
  controllers: [ValidateUserController],
  providers: [
    TokenKeys,
    AccessTokens,
    RefreshTokens,
    NewSessions,
    SessionsService,
    OwnSessions,
    TokenRotation,
    UserStrategy,
    LiveSessionsGauge,
  ],
  exports: [AccessTokens, NewSessions, SessionsService, OwnSessions, TokenRotation],
})
export class TokensModule {}
