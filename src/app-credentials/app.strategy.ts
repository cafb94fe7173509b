import { Inject, Injectable } from '@nestjs/common';
import { PassportStrategy } from '@nestjs/passport';
import type { Request } from 'express';
import { Doors, createRefusal, type DoorReason, HeaderKeyStrategy } from '../access/doors.js';
import { Freshness, wantsFreshVerdict } from '../revocation/freshness.js';
import type { AppPrincipal } from '../access/principals.js';
import type { ProblemException } from '../problems/problems.js';
import type { ResponseLocals } from '../problems/problem.filter.js';
import { Environment } from '../config/environment.js';
import { APP_KEYS, type AppIdentity, type AppKeys } from './app-credentials.service.js';

/**
 * The app door: `X-Platform-App-Id` and `X-Platform-App-Key`. A key is valid at its target only: at this service, or at
 * the service that has it validated.
 */
@Injectable()
export class AppStrategy extends PassportStrategy(HeaderKeyStrategy, 'app') {
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
    const verdict = await this.keys.verifyKey(appId, key, isFresh);
    if (!verdict.valid) throw toRefusal(verdict.reason, appId, verdict.identity);
    const { caller, target } = verdict.identity;
    const { presentedTo = this.environment.serviceName } = (request.res?.locals ?? {}) as ResponseLocals;
    if (presentedTo !== null && presentedTo !== target) throw toRefusal('other_target', appId, verdict.identity);
    this.keys.recordUse(appId, presentedTo);
    return { door: 'app', appId, caller, target, rememberable: verdict.rememberable };
  }
}

function toRefusal(reason: DoorReason<'app'>, appId: string, identity: AppIdentity | undefined): ProblemException {
  const { caller, target } = identity ?? {};
  return createRefusal('app', reason, identity && { app_id: appId, calling_service: caller, called_service: target });
}
