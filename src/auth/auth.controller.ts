import { Body, Controller, HttpCode, Post, Req } from '@nestjs/common';
import {
  ApiBody,
  ApiCreatedResponse,
  ApiNoContentResponse,
  ApiOkResponse,
  ApiOperation,
  ApiSecurity,
  ApiTags,
} from '@nestjs/swagger';
import type { Request } from 'express';
import { ApiProblems } from '../access/api-problems.js';
import { Public } from '../access/require.js';
import { actorOf } from '../audit/actor.js';
import { problems } from '../common/problems.js';
import { SecurityEvents } from '../logging/security-events.js';
import { Throttled } from '../throttling/throttled.js';
import { AccessTokens } from '../tokens/access-tokens.js';
import type { Grant } from '../tokens/sessions.service.js';
import { CredentialsRequest } from '../users/credentials.dto.js';
import { UserResponse } from '../users/user.dto.js';
import { LogoutRequest, RefreshRequest, TokenPairResponse } from './auth.dto.js';
import { AuthService } from './auth.service.js';

@ApiTags('auth')
@Controller('api/v0/auth')
export class AuthController {
  constructor(
    private readonly auth: AuthService,
    private readonly accessTokens: AccessTokens,
    private readonly events: SecurityEvents,
  ) {}

  @Post('register')
  @Public()
  @Throttled('registration')
  @ApiProblems(problems.registrationClosed, problems.emailTaken, problems.hashingBusy)
  @ApiOperation({ summary: 'Register a new user' })
  @ApiCreatedResponse({ type: UserResponse })
  async register(@Req() request: Request, @Body() { email, password }: CredentialsRequest): Promise<UserResponse> {
    const user = await this.auth.register(email, password, actorOf(request));
    this.events.record('user.registered', request, { user_id: user.id });
    return UserResponse.from(user);
  }

  @Post('login')
  @HttpCode(200)
  @Public()
  @ApiProblems(problems.invalidCredentials, problems.tooManyRequests, problems.hashingBusy)
  @ApiOperation({
    summary: 'Log in',
    description:
      'An unknown e-mail address, a wrong password and a disabled account get the same response. Wrong passwords are ' +
      'counted per account and per network; over the limit the response is 429, and the password is not verified. A ' +
      'user has a limited number of sessions: a login beyond it ends the oldest.',
  })
  @ApiOkResponse({ type: TokenPairResponse })
  async login(@Req() request: Request, @Body() { email, password }: CredentialsRequest): Promise<TokenPairResponse> {
    const grant = await this.auth.logIn(email, password, actorOf(request));
    this.events.record('user.login.succeeded', request, { user_id: grant.userId, session_id: grant.sessionId });
    if (grant.endedSessions > 0) {
      const fields = { user_id: grant.userId, reason: 'session_limit', count: grant.endedSessions };
      this.events.record('session.ended', request, fields);
    }
    return this.tokenPair(grant);
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
    const { grant, outcome } = await this.auth.refresh(body.refresh_token, actorOf(request));
    const about = { user_id: grant.userId, session_id: grant.sessionId };
    this.events.record('session.refreshed', request, { ...about, reason: outcome });
    if (outcome === 'repeated_elsewhere') this.events.record('session.refresh.repeated_elsewhere', request, about);
    return this.tokenPair(grant);
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
    const ended = await this.auth.logOut(body.refresh_token, readBearer(request), actorOf(request));
    for (const { userId, sessionId } of ended) {
      this.events.record('session.ended', request, { user_id: userId, session_id: sessionId, reason: 'logout' });
    }
  }

  private tokenPair(grant: Grant): TokenPairResponse {
    return {
      access_token: this.accessTokens.sign(grant),
      refresh_token: grant.refreshToken,
      token_type: 'Bearer',
      expires_in: this.accessTokens.ttlSeconds,
    };
  }
}

/** @returns undefined without the header, and for any other scheme */
function readBearer({ headers }: Request): string | undefined {
  return /^bearer\s+(.*)$/i.exec(headers.authorization ?? '')?.[1];
}
