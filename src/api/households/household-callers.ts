import { Injectable } from '@nestjs/common';
import type { Request } from 'express';
import type { MemberCaller } from '../../domain/households/household-acts.js';
import { Reauthentication } from '../../domain/second-factors/reauthentication.js';
import { toOwnCall } from '../../foundation/access/actor.js';
import type { ProvenRequest } from './household.dto.js';

/** Translates requests at the user door into callers of acts on households. */
@Injectable()
export class HouseholdCallers {
  constructor(private readonly reauthentication: Reauthentication) {}

  toCaller(request: Request): MemberCaller {
    const { principal, actor } = toOwnCall(request);
    return { userId: principal.userId, actor };
  }

  /**
   * Runs an act, after the reauthentication of the caller if the request carries a password.
   * @throws {ProblemException} as {@link Reauthentication.authorizeAct}
   */
  async actAs<Result>(request: Request, given: ProvenRequest, act: (caller: MemberCaller) => Promise<Result>) {
    const caller = this.toCaller(request);
    const { password } = given;
    if (password === undefined) return act(caller);
    return this.reauthentication.authorizeAct(
      toOwnCall(request),
      { ...given, password },
      async ({ passwordChangedAt }, useProof) => act({ ...caller, proof: { passwordChangedAt, useProof } }),
    );
  }
}
