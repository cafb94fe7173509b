import { applyDecorators, Controller, Get } from '@nestjs/common';
import { ApiHeader, ApiOkResponse, ApiOperation, ApiTags, type ApiResponseOptions } from '@nestjs/swagger';
import { RequireWith } from '../access/require.js';
import { EXAMPLES } from '../common/examples.js';
import { MAX_SERVICE_NAME_LENGTH, SERVICE_NAME_PATTERN } from '../common/names.js';
import { ApiProblems } from '../problems/api-problems.js';
import { problems } from '../problems/problems.js';
import type { GatewayDoor } from '../http/request-target.js';
import { AMR_PATTERN, createGatewayGuard } from './gateway.guard.js';

type HeaderObject = NonNullable<ApiResponseOptions['headers']>[string];

const AMR_HEADER: HeaderObject = {
  description:
    'How the user authenticated at the login (RFC 8176): words with spaces between them, `mfa` among them with more than one ' +
    'factor. Absent when the session states none.',
  schema: { type: 'string', pattern: AMR_PATTERN, example: 'pwd otp mfa' },
};

/** Any method, and any path below: `guardHead` replaces those of the gateway's client. */
const Authorize = (
  door: GatewayDoor,
  names: readonly string[],
  optional: Readonly<Record<string, HeaderObject>> = {},
) =>
  applyDecorators(
    RequireWith(createGatewayGuard(door), door),
    ApiOperation({
      summary: `Authorize a request at a gateway, at the ${door} door`,
      description:
        'For `auth_request` of nginx and the like: any method, any path below, and the body is never read. The answer is ' +
        '200 without a body, 401, or 503.',
    }),
    ApiOkResponse({
      description: 'The credential is valid',
      headers: {
        ...Object.fromEntries(['X-Auth-Door', ...names].map((name) => [name, { schema: { type: 'string' } }])),
        ...optional,
      },
    }),
  );

@ApiTags('internal')
@Controller('internal/authorize')
export class AuthorizeController {
  @Get('node')
  @Authorize('node', ['X-Auth-Node-Id', 'X-Auth-Household-Id'])
  authorizeNode(): void {
    // The guard has answered.
  }

  @Get('app')
  @Authorize('app', ['X-Auth-App-Id', 'X-Auth-Caller'])
  @ApiProblems(problems.gatewayMisconfigured)
  @ApiHeader({
    name: 'X-Platform-Target',
    required: true,
    schema: {
      type: 'string',
      pattern: SERVICE_NAME_PATTERN,
      maxLength: MAX_SERVICE_NAME_LENGTH,
      example: EXAMPLES.target,
    },
    description: 'The service behind the gateway. Without it the answer is 503.',
  })
  authorizeApp(): void {
    // The guard has answered.
  }

  @Get('user')
  @Authorize('user', ['X-Auth-User-Id', 'X-Auth-Session-Id'], { 'X-Auth-Amr': AMR_HEADER })
  authorizeUser(): void {
    // The guard has answered.
  }
}
