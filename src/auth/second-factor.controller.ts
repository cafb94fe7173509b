import { Body, Controller, HttpCode, Post, Req } from '@nestjs/common';
import { ApiOkResponse, ApiOperation, ApiTags } from '@nestjs/swagger';
import type { Request } from 'express';
import { Public } from '../access/require.js';
import { toActor } from '../access/actor.js';
import { ApiProblems } from '../problems/api-problems.js';
import { problems } from '../problems/problems.js';
import { PasskeyRequestOptionsResponse } from '../second-factors/webauthn-options.dto.js';
import { Throttled } from '../throttling/throttle.js';
import { TokenPairResponse } from './auth.dto.js';
import { SecondFactorLogin } from './second-factor-login.js';
import { PasskeyLoginRequest, SecondFactorRequest } from './second-factor.dto.js';

@ApiTags('auth')
@Controller('api/v0/auth/login')
export class SecondFactorController {
  constructor(private readonly logins: SecondFactorLogin) {}

  @Post('second-factor')
  @HttpCode(200)
  @Public()
  @Throttled('second-factor-address')
  @ApiProblems(
    problems.invalidSecondFactor,
    problems.emailNotVerified,
    problems.hashingBusy,
    problems.totpSecretUnreadable,
  )
  @ApiOperation({
    summary: 'Answer the challenge of a login',
    description:
      'After `second_factor_required`: with a code of the authenticator app, a recovery code, or a passkey. Each code ' +
      'works once, and wrong ones are counted per account: over the limit the response is 429, and the code is not ' +
      'verified. The challenge can be tried again after a wrong code.',
  })
  @ApiOkResponse({ type: TokenPairResponse })
  async answerSecondFactor(@Req() request: Request, @Body() body: SecondFactorRequest): Promise<TokenPairResponse> {
    return TokenPairResponse.from(await this.logins.logInWithAnswer(body, toActor(request)));
  }

  @Post('passkey/options')
  @HttpCode(200)
  @Public()
  @Throttled('second-factor-address')
  @ApiProblems(problems.notFound)
  @ApiOperation({
    summary: 'Get the options to log in with a passkey alone',
    description: 'For navigator.credentials.get() of the browser. Valid for 5 minutes, and for one login.',
  })
  @ApiOkResponse({ type: PasskeyRequestOptionsResponse })
  async createPasskeyLoginOptions(): Promise<PasskeyRequestOptionsResponse> {
    return this.logins.createPasskeyOptions();
  }

  @Post('passkey')
  @HttpCode(200)
  @Public()
  @Throttled('second-factor-address')
  @ApiProblems(problems.invalidPasskey, problems.emailNotVerified, problems.notFound)
  @ApiOperation({
    summary: 'Log in with a passkey alone',
    description: 'The authenticator must have verified the user, by a PIN or a fingerprint for example.',
  })
  @ApiOkResponse({ type: TokenPairResponse })
  async logInWithPasskey(@Req() request: Request, @Body() body: PasskeyLoginRequest): Promise<TokenPairResponse> {
    return TokenPairResponse.from(await this.logins.logInWithPasskey(body.passkey, toActor(request)));
  }
}
