import { Injectable } from '@nestjs/common';
import type { Request } from 'express';
import type { MemberCaller } from '../../domain/households/household-actions.js';
import { Reauthentication } from '../../domain/second-factors/reauthentication.js';
import { toOwnCall } from '../../foundation/access/actor.js';
import type { ProvenRequest } from './household.dto.js';

/** Translates requests at the user door into callers of actions on households. */
@Injectable()
export class HouseholdCallers {
  constructor(private readonly reauthentication: Reauthentication) {}

  toCaller(request: Request): MemberCaller {
    const { principal, actor } = toOwnCall(request);
    return { userId: principal.userId, actor };
  }

  /**
   * Runs an action, after the reauthentication of the caller if the request carries a password.
   * @throws {ProblemException} as {@link Reauthentication.authorizeAction}
   */
  async actAs<Result>(request: Request, given: ProvenRequest, action: (caller: MemberCaller) => Promise<Result>) {
    const caller = this.toCaller(request);
    const { password } = given;
    if (password === undefined) return action(caller);
    return this.reauthentication.authorizeAction(
      toOwnCall(request),
      { ...given, password },
      async ({ passwordChangedAt }, useProof) => action({ ...caller, proof: { passwordChangedAt, useProof } }),
    );
  }
}
