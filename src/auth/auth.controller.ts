import { Body, Controller, HttpCode, Post, Req, Res } from '@nestjs/common';
import {
  ApiBody,
  ApiCreatedResponse,
  ApiNoContentResponse,
  ApiOkResponse,
  ApiOperation,
  ApiSecurity,
  ApiTags,
} from '@nestjs/swagger';
import type { Request, Response } from 'express';
import { ApiProblems } from '../problems/api-problems.js';
import { readBearer } from '../access/doors.js';
import { Public } from '../access/require.js';
import { toActor } from '../access/actor.js';
import { problems } from '../problems/problems.js';
import { Throttled } from '../throttling/throttle.js';
import { UserResponse, CredentialsRequest, RegistrationRequest } from '../users/user.dto.js';
import { LogoutRequest, RefreshRequest, TokenPairResponse } from './auth.dto.js';
import { AuthService } from './auth.service.js';

@ApiTags('auth')
@Controller('api/v0/auth')
export class AuthController {
  constructor(private readonly auth: AuthService) {}

  @Post('register')
  @Public()
  @Throttled('registration')
  @ApiProblems(problems.registrationClosed, problems.emailTaken, problems.hashingBusy)
  @ApiOperation({ summary: 'Register a new user' })
  @ApiCreatedResponse({ type: UserResponse })
  async register(
    @Req() request: Request,
    @Res({ passthrough: true }) response: Response,
    @Body() { email, password }: RegistrationRequest,
  ): Promise<UserResponse> {
    const user = await this.auth.register(email, password, toActor(request));
    response.location(`/api/v0/users/${user.id}`);
    return UserResponse.from(user);
  }

  @Post('login')
  @HttpCode(200)
  @Public()
  @ApiProblems(
    problems.invalidCredentials,
    problems.emailNotVerified,
    problems.secondFactorRequired,
    problems.tooManyRequests,
    problems.hashingBusy,
  )
  @ApiOperation({
    summary: 'Log in',
    description:
      'An unknown e-mail address, a wrong password and a disabled account get the same response. Wrong passwords are ' +
      'counted per account and per network; over the limit the response is 429, and the password is not verified. A ' +
      'user has a limited number of sessions: a login beyond it ends the oldest. For a user with a second factor the ' +
      'response to the right password is 403 with a challenge. With REQUIRE_VERIFIED_EMAIL the right password of an ' +
      'account whose address is not verified is 403.',
  })
  @ApiOkResponse({ type: TokenPairResponse })
  async login(@Req() request: Request, @Body() { email, password }: CredentialsRequest): Promise<TokenPairResponse> {
    return TokenPairResponse.from(await this.auth.logIn(email, password, toActor(request)));
  }

  @Post('refresh')
  @HttpCode(200)
  @Public()
  @Throttled('refresh')
  @ApiProblems(problems.invalidRefreshToken)
  @ApiOperation({
    summary: 'Exchange a refresh token for a new pair',
    description:
      'Rotates the refresh token. Idempotent within the grace: the old token, sent again because the response was lost, ' +
      'returns the same new refresh token. Later, or once the new one was used, it is a replay and ends the session.',
  })
  @ApiOkResponse({ type: TokenPairResponse })
  async refresh(@Req() request: Request, @Body() body: RefreshRequest): Promise<TokenPairResponse> {
    return TokenPairResponse.from(await this.auth.refresh(body.refresh_token, toActor(request)));
  }

  @Post('logout')
  @HttpCode(204)
  @Public()
  @ApiSecurity('user')
  @ApiSecurity({})
  @ApiProblems(problems.nothingToLogOut, problems.invalidAccessToken)
  @ApiOperation({
    summary: 'End a session',
    description: 'By its refresh token, by an access token as bearer, or by both.',
  })
  @ApiBody({ type: LogoutRequest, required: false })
  @ApiNoContentResponse({ description: 'The session has ended, by this request or before' })
  async logout(@Req() request: Request, @Body() body: LogoutRequest): Promise<void> {
    await this.auth.logOut(body.refresh_token, readBearer(request), toActor(request));
  }
}
