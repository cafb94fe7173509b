/**
 * Introspection of access tokens (RFC 7662), for software that speaks OAuth 2.0. The caller presents its app credential
 * in the platform's headers or as HTTP Basic.
 */
import { isUtf8 } from 'node:buffer';
import { HttpCode, Injectable, Post, Req, type CanActivate, type ExecutionContext } from '@nestjs/common';
import {
  ApiBody,
  ApiConsumes,
  ApiOkResponse,
  ApiOperation,
  ApiProperty,
  ApiPropertyOptional,
  ApiSecurity,
} from '@nestjs/swagger';
import type { Request } from 'express';
import { createRefusal, Doors } from '../../foundation/access/doors.js';
import { toActor } from '../../foundation/access/actor.js';
import type { AppPrincipal, UserPrincipal } from '../../foundation/access/principals.js';
import { InternalController, RequireWith } from '../../foundation/access/require.js';
import { Declares } from '../../foundation/access/route-declarations.js';
import { ID } from '../../foundation/common/fields.js';
import { EXAMPLES } from '../../foundation/common/names.js';
import { Environment } from '../../foundation/config/environment.js';
import { AppDoor } from '../../domain/app-credentials/app.door.js';
import { Memberships } from '../../domain/households/memberships.js';
import { isFreshVerdictWanted } from '../../domain/revocation/propagation.js';
import { UserDoor } from '../../domain/tokens/user.door.js';
import { MAX_TEXT_LENGTH, refuseHostileText } from '../../foundation/http/validation.js';
import { MAX_NAMES } from '../../foundation/http/request-guards.js';
import { ProblemException, problems, REALM, refuseField } from '../../foundation/problems/problems.js';
import { HouseholdsField, type HouseholdOfUser } from './household.dto.js';

/** Only for the OpenAPI document: the form is parsed after authentication. */
class IntrospectionBody {
  @ApiProperty({
    type: String,
    maxLength: MAX_TEXT_LENGTH,
    example: 'eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.e30.c2lnbmF0dXJl',
  })
  token!: string;

  @ApiPropertyOptional({ type: String, description: 'ignored', maxLength: MAX_TEXT_LENGTH, example: 'access_token' })
  token_type_hint?: string;
}

class ActiveTokenResponse {
  @ApiProperty({ example: true }) active!: boolean;
  @ApiPropertyOptional({ type: String, format: 'uuid', description: 'the user', example: EXAMPLES.id }) sub!: string;
  @ApiPropertyOptional({ type: String, format: 'uuid', description: 'the session', example: EXAMPLES.id }) sid!: string;
  @ApiPropertyOptional({ type: 'integer', example: 1_763_769_600 }) exp!: number;
  @ApiPropertyOptional({ type: 'integer', example: 1_763_768_700 }) iat!: number;
  @ApiPropertyOptional({ type: String, example: 'platform-auth' }) iss!: string;
  @ApiPropertyOptional(ID) jti!: string;
  @ApiPropertyOptional({ enum: ['Bearer'] }) token_type!: 'Bearer';
  @ApiPropertyOptional({ type: String, description: 'the e-mail address', example: EXAMPLES.email }) username!: string;

  @ApiPropertyOptional({
    type: [String],
    description: 'how the user authenticated at the login (RFC 8176)',
    example: ['pwd', 'otp', 'mfa'],
  })
  amr!: string[];

  @ApiPropertyOptional({
    type: 'integer',
    description: 'when the user logged in (OpenID Connect Core §2), which a refresh does not change',
    example: 1_763_768_000,
  })
  auth_time!: number;

  @HouseholdsField({ optional: true }) households!: readonly HouseholdOfUser[];
}

const BASIC = /^basic +(?<credentials>[A-Za-z0-9+/=_-]+)$/i;

/** RFC 6749 §5.2: the challenge names the scheme that the client used. */
const BASIC_CHALLENGE = { 'WWW-Authenticate': `Basic ${REALM}` };

/** The app door, also with HTTP Basic, which OAuth 2.0 clients send (RFC 6749 §2.3.1). */
@Injectable()
class IntrospectGuard implements CanActivate {
  constructor(
    private readonly doors: Doors,
    private readonly door: AppDoor,
    private readonly environment: Environment,
  ) {}

  async canActivate(context: ExecutionContext): Promise<true> {
    const request = context.switchToHttp().getRequest<Request>();
    const { authorization } = request.headers;
    request.user = await (authorization === undefined
      ? this.doors.authenticate('app', request)
      : this.authenticateWithBasic(request, authorization));
    return true;
  }

  private async authenticateWithBasic(request: Request, authorization: string): Promise<AppPrincipal> {
    if (this.doors.hasCredential('app', request)) throw new ProblemException(problems.duplicateHeader);
    const target = this.environment.serviceName;
    const isFresh = isFreshVerdictWanted(request);
    try {
      const credential = parseBasic(authorization);
      return await this.door.verifyApp({ ...credential, target, isFresh, getActor: () => toActor(request) });
    } catch (error) {
      const isRefusal = error instanceof ProblemException && error.problem.status === 401;
      throw isRefusal ? error.withHeaders(BASIC_CHALLENGE) : error;
    }
  }
}

function parseBasic(authorization: string): { id: string; key: string } {
  const { credentials = '' } = BASIC.exec(authorization)?.groups ?? {};
  const decoded = Buffer.from(credentials, 'base64').toString();
  const colon = decoded.indexOf(':');
  const [id, key] = [decoded.slice(0, colon), decoded.slice(colon + 1)].map(decodeFormValue);
  if (colon < 1 || !id || !key) throw createRefusal('app', 'malformed');
  return { id, key };
}

function decodeFormValue(text: string): string | undefined {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    return undefined;
  }
}

/** @throws {ProblemException} malformed_request; validation_failed without exactly one token, or with a too long one */
function readToken(body: Buffer | undefined): string {
  const bytes = body ?? Buffer.alloc(0);
  if (!isUtf8(bytes)) throw new ProblemException(problems.malformedRequest);
  const fields = bytes.toString().split('&', MAX_NAMES + 1);
  if (fields.length > MAX_NAMES) throw new ProblemException(problems.malformedRequest);
  const form = new URLSearchParams(fields.join('&'));
  if (form.has('target'))
    refuseField('/target', 'is not part of this request: the credential must be one for this service');
  for (const name of ['token', 'token_type_hint'])
    for (const value of form.getAll(name)) refuseHostileText(value, `/${name}`);
  const [token, ...more] = form.getAll('token');
  if (token && more.length === 0) return token;
  return refuseField('/token', 'must be sent once, and not be empty');
}

@InternalController()
export class IntrospectController {
  constructor(
    private readonly door: UserDoor,
    private readonly memberships: Memberships,
  ) {}

  @Post('introspect')
  @HttpCode(200)
  @RequireWith(IntrospectGuard, 'app')
  @Declares({ body: 'form', countedAs: ['validations'] })
  @ApiSecurity('app_basic')
  @ApiOperation({
    summary: 'Introspect an access token (RFC 7662)',
    description:
      'For software that speaks OAuth 2.0. The app credential for this service is sent in its headers, or as HTTP Basic ' +
      '(`app_id:app_key`). The one verdict that is a 200: `active` is false for every other token, refresh tokens too.',
  })
  @ApiConsumes('application/x-www-form-urlencoded')
  @ApiBody({ type: IntrospectionBody })
  @ApiOkResponse({ type: ActiveTokenResponse, description: 'Or `{"active": false}`' })
  async introspectToken(@Req() request: Request): Promise<ActiveTokenResponse | { readonly active: false }> {
    const principal = await this.authenticateUser(readToken(request.body as Buffer | undefined));
    if (!principal) return { active: false };
    const { userId, sessionId, email, amr, authenticatedAt, claims } = principal;
    const { exp, iat, iss, jti } = claims;
    const token = { exp, iat, iss, jti, token_type: 'Bearer' as const };
    const households = await this.memberships.listMemberships(userId);
    const authentication = { amr: [...amr], auth_time: Math.floor(authenticatedAt.getTime() / 1_000) };
    return { active: true, sub: userId, sid: sessionId, ...token, username: email, ...authentication, households };
  }

  /** Logs no refusal, because an inactive token is an answer to the caller and not an attempt at the user door. */
  private async authenticateUser(token: string): Promise<UserPrincipal | undefined> {
    if (/\s/.test(token)) return undefined;
    try {
      return await this.door.verifyToken(token);
    } catch (error) {
      if (error instanceof ProblemException && error.problem.status === 401) return undefined;
      throw error;
    }
  }
}
