/**
 * The routes open to every client: registration, login (login.service.ts), refresh and logout. Invariant: a reused
 * refresh token ends its session, and that is committed before the refusal is sent.
 */
import { Body, Controller, Post, Req } from '@nestjs/common';
import { ApiProperty, ApiResponse, ApiSecurity, ApiTags } from '@nestjs/swagger';
import { IsIn, ValidateIf } from 'class-validator';
import type { Request } from 'express';
import { toActor } from '../../foundation/access/actor.js';
import { readBearer } from '../../foundation/access/doors.js';
import { Public } from '../../foundation/access/route-decorators.js';
import { Declares } from '../../foundation/access/route-declarations.js';
import { TextField } from '../../foundation/common/fields.js';
import { SECOND_FACTOR_METHODS, type SecondFactorMethod } from '../../foundation/common/names.js';
import { problems, THROTTLE_PROBLEMS } from '../../foundation/problems/problems.js';
import { PasskeyField, PasskeyRequestOptionsResponse } from '../../domain/webauthn/relying-party.js';
import { Throttled } from '../../foundation/throttling/throttle.js';
import { type TokenPair } from '../../domain/tokens/access-tokens.js';
import { UniformRegistration } from '../../domain/users/uniform-registration.js';
import { Registration } from '../../domain/users/registration.js';
import { UserResponse, CredentialsRequest, RegistrationRequest } from '../account/user.dto.js';
import { LoginService } from './login.service.js';
import { SecondFactorLogins } from './second-factor-login.service.js';
import { AuthService } from './auth.service.js';
import { ChallengeField, CodeField } from '../account/second-factor.dto.js';

const MAX_REFRESH_TOKEN_LENGTH = 512;
const REFRESH_TOKEN = {
  description: 'opaque; the refresh_token of the last login or refresh response',
  example: 'pa_rt_AZhfTnw6e1KdHi9qjEsNEQAAAAB…',
};

class RefreshRequest {
  @TextField(MAX_REFRESH_TOKEN_LENGTH, REFRESH_TOKEN) refresh_token!: string;
}

class LogoutRequest {
  @TextField(MAX_REFRESH_TOKEN_LENGTH, REFRESH_TOKEN, { optional: true }) refresh_token?: string;
}

/** RFC 6749 §5.1. */
class TokenPairResponse {
  @ApiProperty({
    description: 'JWT, signed with HS256 or ES256 (`ACCESS_TOKEN_ALGORITHM`)',
    example: 'eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIwMTk4NWY0ZSJ9.c2lnbmF0dXJl',
  })
  access_token!: string;

  @ApiProperty({ description: 'opaque; shown once', example: 'pa_rt_AZhfTnw6e1KdHi9qjEsNEQAAAAB…' })
  refresh_token!: string;

  @ApiProperty({ enum: ['Bearer'] }) token_type!: 'Bearer';

  @ApiProperty({ type: 'integer', description: 'seconds until the access token expires', example: 900 })
  expires_in!: number;

  static from({ accessToken, refreshToken, ttlSeconds }: TokenPair): TokenPairResponse {
    return { access_token: accessToken, refresh_token: refreshToken, token_type: 'Bearer', expires_in: ttlSeconds };
  }
}

class SecondFactorRequest {
  @ChallengeField('of the second_factor_required') challenge!: string;

  @ApiProperty({ enum: SECOND_FACTOR_METHODS, enumName: 'SecondFactorMethod', example: 'totp' })
  @IsIn(SECOND_FACTOR_METHODS, { message: `must be one of ${SECOND_FACTOR_METHODS.join(', ')}` })
  method!: SecondFactorMethod;

  @CodeField('with the methods totp and recovery_code', { optional: true })
  @ValidateIf(({ method }: SecondFactorRequest, value) => method !== 'passkey' || value !== undefined)
  code?: string;

  @PasskeyField('with the method passkey: what toJSON() of the PublicKeyCredential returns in the browser', {
    optional: true,
  })
  @ValidateIf(({ method }: SecondFactorRequest, value) => method === 'passkey' || value !== undefined)
  passkey?: object;
}

class PasskeyLoginRequest {
  @PasskeyField() passkey!: object;
}

@ApiTags('auth')
@Controller('api/v0/auth')
export class AuthController {
  constructor(
    private readonly registration: Registration,
    private readonly uniformRegistration: UniformRegistration,
    private readonly logins: LoginService,
    private readonly secondFactors: SecondFactorLogins,
    private readonly auth: AuthService,
  ) {}

  @Post('register')
  @Public({
    summary: 'Register a new user',
    description:
      'With REGISTRATION_ANSWER=uniform every well-formed address gets 202, and costs the same work: a new one gets a ' +
      'mail with a link to choose the password, and one that has an account gets a mail that says so.',
    refusals: [problems.registrationClosed, problems.emailTaken, problems.hashingBusy],
    creates: UserResponse,
  })
  @Throttled('registration')
  @ApiResponse({ status: 202, description: 'REGISTRATION_ANSWER=uniform: the request is recorded, and a mail follows' })
  async register(@Req() request: Request, @Body() body: RegistrationRequest): Promise<UserResponse | undefined> {
    if (this.uniformRegistration.isEnabled) {
      await this.uniformRegistration.requestAccount(body, toActor(request));
      request.res?.status(202);
      return undefined;
    }
    const user = await this.registration.registerUser(body, toActor(request));
    request.res?.location(`/api/v0/users/${user.id}`);
    return UserResponse.from(user);
  }

  @Post('login')
  @Public({
    summary: 'Log in',
    description:
      'An unknown e-mail address, a wrong password and a disabled account get the same response. Wrong passwords are ' +
      'counted per account and per network; over the limit the response is 429, and the password is not verified. A ' +
      'user has a limited number of sessions: a login beyond it ends the oldest. For a user with a second factor the ' +
      'response to the right password is 403 with a challenge. With REQUIRE_VERIFIED_EMAIL the right password of an ' +
      'account whose address is not verified is 403, and with SECOND_FACTOR_REQUIRED that of an account without a ' +
      'second factor is 403 with a challenge to enrol one.',
    refusals: [
      problems.invalidCredentials,
      problems.emailNotVerified,
      problems.secondFactorRequired,
      problems.secondFactorEnrolmentRequired,
      ...THROTTLE_PROBLEMS,
    ],
    returns: TokenPairResponse,
  })
  @Declares({ countedAs: ['logins', 'new_sessions'] })
  async login(@Req() request: Request, @Body() body: CredentialsRequest): Promise<TokenPairResponse> {
    return TokenPairResponse.from(await this.logins.logInWithPassword(body, toActor(request)));
  }

  @Post('refresh')
  @Public({
    summary: 'Exchange a refresh token for a new pair',
    description:
      'Rotates the refresh token. Idempotent within the grace: the old token, sent again because the response was lost, ' +
      'returns the same new refresh token. Later, or once the new one was used, it is a replay and ends the session.',
    refusals: [problems.invalidRefreshToken],
    returns: TokenPairResponse,
  })
  @Throttled('refresh')
  async refresh(@Req() request: Request, @Body() body: RefreshRequest): Promise<TokenPairResponse> {
    return TokenPairResponse.from(await this.auth.refreshSession(body.refresh_token, toActor(request)));
  }

  @Post('logout')
  @Public({
    summary: 'End a session',
    description: 'By its refresh token, by an access token as bearer, or by both.',
    refusals: [problems.nothingToLogOut, problems.invalidAccessToken],
    optionalBody: LogoutRequest,
    done: 'The session has ended, by this request or before',
  })
  @ApiSecurity('user')
  @ApiSecurity({})
  async logout(@Req() request: Request, @Body() body: LogoutRequest): Promise<void> {
    await this.auth.logOut(body.refresh_token, readBearer(request), toActor(request));
  }

  @Post('login/second-factor')
  @Public({
    summary: 'Answer the challenge of a login',
    description:
      'After `second_factor_required`: with a code of the authenticator app, a recovery code, or a passkey. Each code ' +
      'works once, and wrong ones are counted per account: over the limit the response is 429, and the code is not ' +
      'verified. The challenge can be tried again after a wrong code.',
    refusals: [
      problems.invalidSecondFactor,
      problems.emailNotVerified,
      problems.hashingBusy,
      problems.totpSecretUnreadable,
    ],
    returns: TokenPairResponse,
  })
  @Declares({ countedAs: ['new_sessions'] })
  @Throttled('second-factor-address')
  async answerSecondFactor(@Req() request: Request, @Body() body: SecondFactorRequest): Promise<TokenPairResponse> {
    return TokenPairResponse.from(await this.secondFactors.logInWithSecondFactor(body, toActor(request)));
  }

  @Post('login/passkey/options')
  @Public({
    summary: 'Get the options to log in with a passkey alone',
    description: 'For navigator.credentials.get() of the browser. Valid for 5 minutes, and for one login.',
    refusals: [problems.notFound],
    returns: PasskeyRequestOptionsResponse,
  })
  @Throttled('second-factor-address')
  async createPasskeyLoginOptions(): Promise<PasskeyRequestOptionsResponse> {
    return this.secondFactors.createPasskeyOptions();
  }

  @Post('login/passkey')
  @Public({
    summary: 'Log in with a passkey alone',
    description: 'The authenticator must have verified the user, by a PIN or a fingerprint for example.',
    refusals: [problems.invalidPasskey, problems.emailNotVerified, problems.notFound],
    returns: TokenPairResponse,
  })
  @Declares({ countedAs: ['logins', 'new_sessions'] })
  @Throttled('second-factor-address')
  async logInWithPasskey(@Req() request: Request, @Body() body: PasskeyLoginRequest): Promise<TokenPairResponse> {
    return TokenPairResponse.from(await this.secondFactors.logInWithPasskey(body.passkey, toActor(request)));
  }
}
