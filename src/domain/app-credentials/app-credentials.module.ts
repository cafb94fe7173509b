/**
 * The app door: `X-Platform-App-Id` and `X-Platform-App-Key`. A key is valid at its target only: at this service, or at the
 * service that has it validated by the route below.
 */
import { Inject, Injectable, Post, Req, Module } from '@nestjs/common';
import { PassportStrategy } from '@nestjs/passport';
import { ApiBody, ApiOperation, ApiProperty, ApiPropertyOptional } from '@nestjs/swagger';
import { TypeOrmModule } from '@nestjs/typeorm';
import type { Request } from 'express';
import { getPrincipal, toActor, type AppPrincipal } from '../../foundation/access/actor.js';
import { createRefusal, Doors, HeaderKeyStrategy } from '../../foundation/access/doors.js';
import { Answers, InternalController, RequirePresentedApp } from '../../foundation/access/require.js';
import { APP_SCOPES, ID, ServiceNameField } from '../../foundation/common/fields.js';
import { EXAMPLES } from '../../foundation/common/names.js';
import { Environment } from '../../foundation/config/environment.js';
import { provideKeyStore } from '../keys/key-store.js';
import type { ResponseLocals } from '../../foundation/problems/problem.filter.js';
import { ProblemException, problems } from '../../foundation/problems/problems.js';
import { Freshness, wantsFreshVerdict } from '../revocation/propagation.js';
import { AppCredential } from './app-credential.entity.js';
import { APP_KEY_KIND, APP_KEYS, AppCredentialsService, type AppKeys } from './app-credentials.service.js';

@Injectable()
class AppStrategy extends PassportStrategy(HeaderKeyStrategy, 'app') {
  constructor(
    doors: Doors,
    @Inject(APP_KEYS) private readonly keys: AppKeys,
    private readonly freshness: Freshness,
    private readonly environment: Environment,
  ) {
    super('X-Platform-App-Key');
    doors.install('app', this);
  }

  async validate(request: Request, key: string): Promise<AppPrincipal> {
    const sentId = request.headers['x-platform-app-id'];
    if (typeof sentId !== 'string') throw createRefusal('app', 'no_id');
    const appId = sentId.toLowerCase();
    const isFresh = wantsFreshVerdict(request);
    if (isFresh) await this.freshness.noteArrival(request);
    const { presentedTo = this.environment.serviceName, askedScope: scope } = (request.res?.locals ??
      {}) as ResponseLocals;
    const asked = { target: presentedTo ?? undefined, scope };
    const verdict = await this.keys.verifier.verifyKey(appId, key, asked, isFresh);
    if (!verdict.valid) {
      const isMissingScope = verdict.reason === 'violation' && verdict.violation === 'missing_scope';
      const ofViolation = isMissingScope ? 'missing_scope' : 'other_target';
      const reason = verdict.reason === 'violation' ? ofViolation : verdict.reason;
      if (!verdict.identity) throw createRefusal('app', reason);
      this.keys.verifier.recordRefusal(appId, reason, toActor(request));
      const { caller, target } = verdict.identity;
      const refusal = createRefusal('app', reason, { app_id: appId, calling_service: caller, called_service: target });
      throw scope !== undefined && isMissingScope ? createMissingScopeProblem(scope, refusal) : refusal;
    }
    const { caller, target, scopes } = verdict.identity;
    this.keys.verifier.recordUse(appId, presentedTo, scope);
    return { door: 'app', appId, caller, target, scopes, rememberable: verdict.rememberable };
  }
}

/** The key is valid, so that this is not a 401: the caller would take it for a wrong key. */
function createMissingScopeProblem(scope: string, { occurrence }: ProblemException): ProblemException {
  return new ProblemException(problems.missingScope, { ...occurrence, members: { scopes: [scope] } });
}

/** For the OpenAPI document only: the guard reads the body (`readPresentedTarget`). */
class ValidateAppRequest {
  @ServiceNameField(EXAMPLES.target, { optional: true }) target?: string;
}

class ValidAppResponse {
  @ApiProperty({ enum: [true] }) valid!: true;
  @ApiProperty(ID) app_id!: string;
  @ApiProperty({ example: EXAMPLES.caller }) caller!: string;
  @ApiProperty({ example: EXAMPLES.target }) target!: string;
  @ApiPropertyOptional(APP_SCOPES) scopes?: readonly string[];
}

@InternalController()
class ValidateAppController {
  constructor(private readonly freshness: Freshness) {}

  @Post('validate-app')
  @RequirePresentedApp()
  @ApiOperation({
    summary: 'Validate the key of a service',
    description:
      'Forward the headers that a service sent you, and name yourself as target, in the body or in X-Platform-Target: ' +
      'a key for another service is refused. The answer has `scopes` when the credential is restricted to some.',
  })
  @ApiBody({ type: ValidateAppRequest, required: false })
  @Answers(200, ValidAppResponse)
  validateApp(@Req() request: Request): ValidAppResponse {
    const { appId, caller, target, scopes, rememberable } = getPrincipal(request, 'app');
    this.freshness.setHeaders(request, rememberable);
    return { valid: true, app_id: appId, caller, target, ...(scopes && { scopes }) };
  }
}

@Module({
  imports: [TypeOrmModule.forFeature([AppCredential])],
  controllers: [ValidateAppController],
  providers: [provideKeyStore(APP_KEYS, AppCredential, APP_KEY_KIND), AppCredentialsService, AppStrategy],
  exports: [AppCredentialsService],
})
export class AppCredentialsModule {}
