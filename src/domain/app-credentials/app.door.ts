import { Inject, Injectable } from '@nestjs/common';
import type { Actor } from '../../foundation/access/actor.js';
import type { AppPrincipal } from '../../foundation/access/principals.js';
import { createRefusal } from '../../foundation/access/doors.js';
import { ProblemException, problems } from '../../foundation/problems/problems.js';
import type { AskedUse } from '../keys/key-record.js';
import { APP_KEYS, type AppKeys } from './app-credentials.service.js';

interface PresentedApp {
  readonly id: string;
  readonly key: string;
  /** The service at which the key is presented; null when the forwarding service did not name itself. */
  readonly target: string | null;
  /** The scope that the call needs at that service, as in {@link AskedUse}. */
  readonly scope?: AskedUse['scope'];
  /** Whether to skip the cache. */
  readonly isFresh: boolean;
  /** Called only when the key is refused. */
  readonly getActor: () => Actor;
}

/** The app door. A key is valid at its target only: at this service, or at the service that forwards it. */
@Injectable()
export class AppDoor {
  constructor(@Inject(APP_KEYS) private readonly keys: AppKeys) {}

  /** @throws {ProblemException} invalid_app_credentials, missing_scope */
  async verifyApp({ id, key, target, scope, isFresh, getActor }: PresentedApp): Promise<AppPrincipal> {
    const { verifier } = this.keys;
    const appId = id.toLowerCase();
    const verdict = await verifier.verifyKey(appId, key, { target: target ?? undefined, scope }, isFresh);
    if (!verdict.valid) {
      const isMissingScope = verdict.reason === 'violation' && verdict.violation === 'missing_scope';
      const ofViolation = isMissingScope ? 'missing_scope' : 'other_target';
      const reason = verdict.reason === 'violation' ? ofViolation : verdict.reason;
      if (!verdict.identity) throw createRefusal('app', reason);
      verifier.recordRefusal(appId, reason, getActor());
      const { caller, target: called } = verdict.identity;
      const refusal = createRefusal('app', reason, { app_id: appId, calling_service: caller, called_service: called });
      throw scope !== undefined && isMissingScope ? createMissingScopeProblem(scope, refusal) : refusal;
    }
    const { identity, isPrevious, rememberable } = verdict;
    verifier.recordUse(appId, target, isPrevious, scope ?? undefined);
    const { caller, target: ownTarget, scopes } = identity;
    return { door: 'app', appId, caller, target: ownTarget, scopes, isPrevious, rememberable };
  }
}

/** A 403, because the key is valid: the caller would take a 401 for a wrong key. */
function createMissingScopeProblem(scope: string | null, { occurrence }: ProblemException): ProblemException {
  return new ProblemException(problems.missingScope, {
    ...occurrence,
    members: { scopes: scope === null ? [] : [scope] },
  });
}
