/**
 * The exchange of a user's token for one with which the caller calls the next service (RFC 8693), for software that
 * speaks OAuth 2.0. Errors have the form of RFC 6749 §5.2, with the code and the request id of this service.
 */
import { Catch, HttpCode, Injectable, Post, Req, UseFilters } from '@nestjs/common';
import {
  ApiBody,
  ApiConsumes,
  ApiOkResponse,
  ApiOperation,
  ApiProperty,
  ApiPropertyOptional,
  ApiSchema,
  ApiSecurity,
} from '@nestjs/swagger';
import type { Request, Response } from 'express';
import { TOKEN_EXCHANGE_GRANT, TokenExchangeService } from '../../domain/delegation/token-exchange.service.js';
import { toActor } from '../../foundation/access/actor.js';
import { getPrincipal } from '../../foundation/access/principals.js';
import { InternalController, RequireWith } from '../../foundation/access/route-decorators.js';
import { Declares } from '../../foundation/access/route-declarations.js';
import { getRequestId } from '../../foundation/common/ids.js';
import { APP_SCOPE_FORMAT, EXAMPLES, MAX_RESTRICTIONS, SERVICE_NAME_FORMAT } from '../../foundation/common/names.js';
import { MAX_TEXT_LENGTH } from '../../foundation/http/validation.js';
import { ProblemFilter } from '../../foundation/problems/problem.filter.js';
import { ApiErrorsAs, ApiProblems } from '../../foundation/problems/api-problems.js';
import {
  ProblemException,
  problems,
  refuseField,
  type Occurrence,
  type Problem,
} from '../../foundation/problems/problems.js';
import { OAuthClientGuard, readForm } from './oauth-client.guard.js';

const ACCESS_TOKEN = 'urn:ietf:params:oauth:token-type:access_token';
const FIELDS = [
  'grant_type',
  'subject_token',
  'subject_token_type',
  'audience',
  'scope',
  'requested_token_type',
  'resource',
  'actor_token',
  'actor_token_type',
];
const MAX_SCOPE_LENGTH = MAX_RESTRICTIONS * (APP_SCOPE_FORMAT.schema.maxLength + 1) - 1;

/** Only for the OpenAPI document: the form is parsed after authentication. */
class TokenExchangeBody {
  @ApiProperty({ enum: [TOKEN_EXCHANGE_GRANT], example: TOKEN_EXCHANGE_GRANT }) grant_type!: string;

  @ApiProperty({
    type: String,
    maxLength: MAX_TEXT_LENGTH,
    description: 'the access token of the user, or a delegated token that is for the caller',
    example: 'eyJhbGciOiJFUzI1NiIsInR5cCI6IkpXVCJ9.e30.c2lnbmF0dXJl',
  })
  subject_token!: string;

  @ApiProperty({ enum: [ACCESS_TOKEN], example: ACCESS_TOKEN }) subject_token_type!: string;
  @ApiProperty({ ...SERVICE_NAME_FORMAT.schema, description: 'the next service', example: 'ocr' }) audience!: string;

  @ApiPropertyOptional({
    type: String,
    maxLength: MAX_SCOPE_LENGTH,
    description: 'of the scopes of the pair, separated by spaces; left out: all of them',
    example: EXAMPLES.appScope,
  })
  scope?: string;

  @ApiPropertyOptional({ enum: [ACCESS_TOKEN] }) requested_token_type?: string;
}

class TokenResponse {
  @ApiProperty({ example: 'eyJhbGciOiJFUzI1NiIsInR5cCI6ImF0K2p3dCJ9.e30.c2lnbmF0dXJl' }) access_token!: string;
  @ApiProperty({ enum: [ACCESS_TOKEN] }) issued_token_type!: string;
  @ApiProperty({ enum: ['Bearer'] }) token_type!: 'Bearer';
  @ApiProperty({ type: 'integer', description: 'seconds', example: 300 }) expires_in!: number;
  @ApiProperty({ example: EXAMPLES.appScope }) scope!: string;
}

const OAUTH_ERRORS = ['invalid_request', 'invalid_client', 'invalid_target', 'invalid_scope', 'unsupported_grant_type'];

@ApiSchema({ name: 'OAuthError' })
class OAuthErrorSchema {
  @ApiProperty({ enum: OAUTH_ERRORS, enumName: 'OAuthErrorCode', example: 'invalid_request' }) error!: string;
  @ApiProperty({ example: 'The subject token has ended.' }) error_description!: string;
  @ApiProperty({ description: 'as in every other error of this service', example: 'invalid_subject_token' })
  code!: string;
  @ApiProperty({ description: 'as in the X-Request-Id header and in the logs', example: EXAMPLES.id })
  request_id!: string;
}

/** Writes 400 and 401 as RFC 6749 §5.2 says; all other errors are those of every route. */
@Catch()
@Injectable()
class OAuthErrorFilter extends ProblemFilter {
  protected override send(problem: Problem, occurrence: Occurrence, request: Request, response: Response): void {
    const { status, code } = problem;
    if (status !== 400 && status !== 401) {
      super.send(problem, occurrence, request, response);
      return;
    }
    const ofRequest = OAUTH_ERRORS.includes(code) ? code : 'invalid_request';
    const details = occurrence.errors?.map(({ pointer, detail }) => `${pointer.slice(1)} ${detail}`);
    const text = JSON.stringify({
      error: status === 401 ? 'invalid_client' : ofRequest,
      error_description: details?.join('; ') ?? problem.detail,
      code,
      request_id: getRequestId(request),
    });
    if (problem.challenge) response.setHeader('WWW-Authenticate', problem.challenge);
    this.setHeaders(problem, occurrence, response);
    response.status(status).type('application/json').end(text);
  }
}

/** @throws {ProblemException} unsupported_grant_type, validation_failed, invalid_target, invalid_scope */
function readExchange(body: Buffer | undefined) {
  const form = readForm(body, FIELDS);
  const read = (name: string): string | undefined => {
    const [value, ...more] = form.getAll(name);
    if (more.length > 0) refuseField(`/${name}`, 'must be sent once');
    // RFC 6749 §3.2: a parameter without a value counts as left out.
    return value === '' ? undefined : value;
  };
  const grantType = read('grant_type') ?? refuseField('/grant_type', 'must be sent');
  if (grantType !== TOKEN_EXCHANGE_GRANT) throw new ProblemException(problems.unsupportedGrantType);
  for (const name of ['resource', 'actor_token', 'actor_token_type'])
    if (read(name) !== undefined) refuseField(`/${name}`, 'is not supported');
  if (read('subject_token_type') !== ACCESS_TOKEN) refuseField('/subject_token_type', `must be ${ACCESS_TOKEN}`);
  const requested = read('requested_token_type');
  if (requested !== undefined && requested !== ACCESS_TOKEN)
    refuseField('/requested_token_type', `must be ${ACCESS_TOKEN}, or left out`);
  const subjectToken = read('subject_token') ?? refuseField('/subject_token', 'must be sent');
  const audience = read('audience') ?? refuseField('/audience', 'must be sent');
  if (!SERVICE_NAME_FORMAT.isName(audience)) throw new ProblemException(problems.invalidTarget);
  const scopes = read('scope')?.split(' ');
  if (scopes && (scopes.length > MAX_RESTRICTIONS || !scopes.every(APP_SCOPE_FORMAT.isName)))
    throw new ProblemException(problems.invalidScope);
  return { subjectToken, audience, scopes: scopes && [...new Set(scopes)] };
}

@InternalController()
export class TokenController {
  constructor(private readonly tokens: TokenExchangeService) {}

  @Post('token')
  @HttpCode(200)
  @RequireWith(OAuthClientGuard, 'app')
  @UseFilters(OAuthErrorFilter)
  @Declares({ body: 'form' })
  @ApiSecurity('app_basic')
  @ApiProblems(
    problems.unsupportedGrantType,
    problems.invalidSubjectToken,
    problems.invalidTarget,
    problems.invalidScope,
  )
  @ApiOperation({
    summary: 'Exchange the token of a user for one for the next service (RFC 8693)',
    description:
      'The app credential for this service is sent in its headers, or as HTTP Basic. The pair of the caller and the ' +
      'audience must be for users; the token has its scopes, lives 5 minutes at most and no longer than the subject token, ' +
      'and is valid at the audience only. Needs ACCESS_TOKEN_ALGORITHM=ES256. Errors have the form of OAuth 2.0.',
  })
  @ApiConsumes('application/x-www-form-urlencoded')
  @ApiBody({ type: TokenExchangeBody })
  @ApiOkResponse({ type: TokenResponse })
  @ApiErrorsAs(OAuthErrorSchema, 400, 401)
  async exchangeToken(@Req() request: Request): Promise<TokenResponse> {
    const asked = readExchange(request.body as Buffer | undefined);
    const issued = await this.tokens.exchangeToken(asked, getPrincipal(request, 'app'), toActor(request));
    return {
      access_token: issued.accessToken,
      issued_token_type: ACCESS_TOKEN,
      token_type: 'Bearer',
      expires_in: issued.ttlSeconds,
      scope: issued.scopes.join(' '),
    };
  }
}
