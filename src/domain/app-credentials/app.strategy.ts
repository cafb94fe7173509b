import { Injectable, Inject } from '@nestjs/common';
import { PassportStrategy } from '@nestjs/passport';
import type { Request } from 'express';
import { type AppPrincipal, toActor } from '../../foundation/access/actor.js';
import { HeaderKeyStrategy, Doors, createRefusal } from '../../foundation/access/doors.js';
import { Environment } from '../../foundation/config/environment.js';
import type { ResponseLocals } from '../../foundation/problems/problem.filter.js';
import { ProblemException, problems } from '../../foundation/problems/problems.js';
import { Freshness, wantsFreshVerdict } from '../revocation/propagation.js';
import { APP_KEYS, type AppKeys } from './app-credentials.service.js';

/**
 * The app door: `X-Platform-App-Id` and `X-Platform-App-Key`. A key is valid at its target only: at this service, or at the
 * service that has it validated.
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
    const { identity, isPrevious, rememberable } = verdict;
    const { caller, target, scopes } = identity;
    this.keys.verifier.recordUse(appId, presentedTo, isPrevious, scope);
    return { door: 'app', appId, caller, target, scopes, isPrevious, rememberable };
  }
}
/** The key is valid, so that this is not a 401: the caller would take it for a wrong key. */
function createMissingScopeProblem(scope: string, { occurrence }: ProblemException): ProblemException {
  return new ProblemException(problems.missingScope, { ...occurrence, members: { scopes: [scope] } });
}
