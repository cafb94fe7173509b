import { Module } from '@nestjs/common';
import { AccessModule } from '../access/access.module.js';
import { AuditModule } from '../audit/audit.module.js';
import { MetricsModule } from '../metrics/metrics.module.js';
import { JwtModule } from '@nestjs/jwt';
import { TypeOrmModule } from '@nestjs/typeorm';
import { Environment } from '../config/environment.js';
import { createSigningKey } from '../crypto/secret.js';
import { AccessTokens } from './access-tokens.js';
import { LiveSessionsGauge } from './live-sessions.gauge.js';
import { RefreshTokens } from './refresh-token.js';
import { Session } from './session.entity.js';
import { SessionsService } from './sessions.service.js';
import { TokenRotation } from './token-rotation.js';
import { ValidateUserController } from './validate-user.controller.js';
import { UserStrategy } from './user.strategy.js';

@Module({
  imports: [
    AccessModule,
    AuditModule,
    MetricsModule,
    TypeOrmModule.forFeature([Session]),
    JwtModule.registerAsync({
      inject: [Environment],
      useFactory: ({ secretKey, jwtIssuer, jwtAudience }: Environment) => ({
        secret: createSigningKey(secretKey),
        signOptions: { algorithm: 'HS256' },
        verifyOptions: {
          algorithms: ['HS256'],
          issuer: jwtIssuer,
          ...(jwtAudience !== undefined && { audience: jwtAudience }),
        },
      }),
    }),
  ],
  controllers: [ValidateUserController],
  providers: [AccessTokens, RefreshTokens, SessionsService, TokenRotation, UserStrategy, LiveSessionsGauge],
  exports: [AccessTokens, SessionsService, TokenRotation],
})
export class TokensModule {}
