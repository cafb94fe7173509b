import { Body, Controller, Get, HttpCode, Post, Req, Res } from '@nestjs/common';
import { ApiCreatedResponse, ApiNoContentResponse, ApiOkResponse, ApiOperation, ApiTags } from '@nestjs/swagger';
import type { Request, Response } from 'express';
import { getPrincipal } from '../access/principals.js';
import { RequireUser } from '../access/require.js';
import { toActor } from '../access/actor.js';
import { ApiProblems } from '../problems/api-problems.js';
import { problems } from '../problems/problems.js';
import { REAUTHENTICATION_PROBLEMS } from '../passwords/password-verifier.js';
import {
  ConfirmTotpRequest,
  EnrolmentResponse,
  ProofRequest,
  ProofWithCodeRequest,
  RecoveryCodesResponse,
  TotpResponse,
} from './factors.dto.js';
import { TotpService } from './totp.service.js';

const CODE_PROBLEMS = [
  problems.wrongSecondFactor,
  problems.tooManyRequests,
  problems.hashingBusy,
  problems.totpSecretUnreadable,
];

@ApiTags('users')
@Controller('api/v0/users/me')
export class TotpController {
  constructor(private readonly totp: TotpService) {}

  @Get('totp')
  @RequireUser()
  @ApiProblems(problems.notFound)
  @ApiOperation({ summary: 'Get the state of your authenticator app' })
  @ApiOkResponse({ type: TotpResponse })
  async getTotp(@Req() request: Request): Promise<TotpResponse> {
    return TotpResponse.from(await this.totp.find(getPrincipal(request, 'user').userId));
  }

  @Post('totp')
  @RequireUser()
  @ApiProblems(...REAUTHENTICATION_PROBLEMS, problems.totpEnrolled)
  @ApiOperation({
    summary: 'Enrol an authenticator app (TOTP)',
    description:
      'Returns the secret as text, as the URI that apps read, and as a QR code. Logins ask for a code once the ' +
      'enrolment is confirmed. A new enrolment, or a change of the password, voids one that was not confirmed.',
  })
  @ApiCreatedResponse({ type: EnrolmentResponse })
  async enrolTotp(
    @Req() request: Request,
    @Res({ passthrough: true }) response: Response,
    @Body() { password }: ProofRequest,
  ): Promise<EnrolmentResponse> {
    const enrolment = await this.totp.enrol(getPrincipal(request, 'user'), password, toActor(request));
    response.location('/api/v0/users/me/totp');
    return EnrolmentResponse.from(enrolment);
  }

  @Post('totp/confirm')
  @HttpCode(200)
  @RequireUser()
  @ApiProblems(...CODE_PROBLEMS, problems.totpEnrolled, problems.notFound)
  @ApiOperation({
    summary: 'Confirm the authenticator app with a code',
    description:
      'From now on a login needs a code. Returns ten recovery codes, which are shown once. If it is the first factor, all ' +
      'other sessions end.',
  })
  @ApiOkResponse({ type: RecoveryCodesResponse })
  async confirmTotp(@Req() request: Request, @Body() { code }: ConfirmTotpRequest): Promise<RecoveryCodesResponse> {
    const codes = await this.totp.confirm(getPrincipal(request, 'user'), code, toActor(request));
    return RecoveryCodesResponse.from(codes);
  }

  @Post('totp/remove')
  @HttpCode(204)
  @RequireUser()
  @ApiProblems(...REAUTHENTICATION_PROBLEMS, ...CODE_PROBLEMS, problems.notFound)
  @ApiOperation({ summary: 'Remove the authenticator app', description: 'Also voids the recovery codes.' })
  @ApiNoContentResponse({ description: 'Logins ask for no code any more' })
  async removeTotp(@Req() request: Request, @Body() body: ProofWithCodeRequest): Promise<void> {
    await this.totp.remove(getPrincipal(request, 'user'), body, toActor(request));
  }

  @Post('recovery-codes')
  @HttpCode(200)
  @RequireUser()
  @ApiProblems(...REAUTHENTICATION_PROBLEMS, ...CODE_PROBLEMS, problems.notFound)
  @ApiOperation({ summary: 'Replace the recovery codes', description: 'The former ones are void.' })
  @ApiOkResponse({ type: RecoveryCodesResponse })
  async replaceRecoveryCodes(
    @Req() request: Request,
    @Body() body: ProofWithCodeRequest,
  ): Promise<RecoveryCodesResponse> {
    const codes = await this.totp.replaceRecoveryCodes(getPrincipal(request, 'user'), body, toActor(request));
    return RecoveryCodesResponse.from(codes);
  }
}
