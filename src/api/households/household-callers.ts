import { Injectable } from '@nestjs/common';
import type { Request } from 'express';
import type { MemberCaller } from '../../domain/households/household-acts.js';
import { PasswordVerifier } from '../../domain/passwords/password-verifier.js';
import { toOwnCall } from '../../foundation/access/actor.js';

/** Translates requests at the user door into callers of acts on households. */
@Injectable()
export class HouseholdCallers {
  constructor(private readonly verifier: PasswordVerifier) {}

  toCaller(request: Request): MemberCaller {
    const { principal, actor } = toOwnCall(request);
    return { userId: principal.userId, actor };
  }

  /** @throws {ProblemException} wrong_password; too_many_requests; hashing_busy */
  async proveCaller(request: Request, password: string | undefined): Promise<MemberCaller> {
    const proof =
      password === undefined ? undefined : await this.verifier.reauthenticateUser(toOwnCall(request), password);
    return { ...this.toCaller(request), proof };
  }
}
