// The enrolment of a first second factor at a login, where SECOND_FACTOR_REQUIRED demands one.

import { Body, Controller, Post, Req } from '@nestjs/common';
import { ApiTags } from '@nestjs/swagger';
import type { Request } from 'express';
import { toActor } from '../../foundation/access/actor.js';
import { Public } from '../../foundation/access/route-decorators.js';
import { problems } from '../../foundation/problems/problems.js';
import { Throttled } from '../../foundation/throttling/throttle.js';
import { ChallengeField, CodeField } from '../account/second-factor.dto.js';
import { RecoveryCodesResponse, TotpEnrolmentResponse } from '../account/totp.controller.js';
import { EnrolmentLogins } from './enrolment-login.service.js';

class LoginEnrolmentRequest {
  @ChallengeField('of the second_factor_enrolment_required') challenge!: string;
}

class ConfirmLoginEnrolmentRequest extends LoginEnrolmentRequest {
  @CodeField('a code of the authenticator app') code!: string;
}

const CHALLENGE_PROBLEMS = [problems.invalidSecondFactor, problems.totpEnrolled];

@ApiTags('auth')
@Controller('api/v0/auth/login/enrolment/totp')
export class LoginEnrolmentController {
  constructor(private readonly enrolments: EnrolmentLogins) {}

  @Post()
  @Public({
    summary: 'Enrol the authenticator app that a login demands',
    description:
      'After `second_factor_enrolment_required`: returns the secret as text, as the URI that apps read, and as a QR ' +
      'code. Can be repeated with the same challenge; the last secret counts.',
    refusals: CHALLENGE_PROBLEMS,
    creates: TotpEnrolmentResponse,
  })
  @Throttled('second-factor-address')
  async enrolTotpAtLogin(@Req() request: Request, @Body() body: LoginEnrolmentRequest): Promise<TotpEnrolmentResponse> {
    const enrolment = await this.enrolments.beginEnrolment(body.challenge, toActor(request));
    request.res?.location('/api/v0/users/me/totp');
    return TotpEnrolmentResponse.from(enrolment);
  }

  @Post('confirm')
  @Public({
    summary: 'Confirm the authenticator app that a login demands',
    description:
      'Returns ten recovery codes, which are shown once, and no tokens: log in again, with a later code of the app or a ' +
      'recovery code. All sessions of the user end. The challenge can be tried again after a wrong code.',
    refusals: [...CHALLENGE_PROBLEMS, problems.hashingBusy, problems.totpSecretUnreadable],
    returns: RecoveryCodesResponse,
  })
  @Throttled('second-factor-address')
  async confirmTotpAtLogin(
    @Req() request: Request,
    @Body() body: ConfirmLoginEnrolmentRequest,
  ): Promise<RecoveryCodesResponse> {
    return { recovery_codes: await this.enrolments.confirmEnrolment(body, toActor(request)) };
  }
}
