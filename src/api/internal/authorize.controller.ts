/**
 * Authorization for gateways (`auth_request` of nginx and the like): a door asked about a request of the gateway's
 * client. The verdict is a status alone: 200 with the identity in headers, 401, 403 for a scope that an app credential
 * lacks, or 503. No other status is sent, because a gateway would pass it on to its client.
 */
import {
  applyDecorators,
  Get,
  Injectable,
  mixin,
  type CanActivate,
  type ExecutionContext,
  type Type,
} from '@nestjs/common';
import { ApiHeader, ApiOkResponse, ApiOperation, type ApiResponseOptions } from '@nestjs/swagger';
import type { Request, Response } from 'express';
import { createRefusal, Doors, type RouteDemand } from '../../foundation/access/doors.js';
import { DOORS, requireHouseholds, type Principal } from '../../foundation/access/principals.js';
import { InternalController, RequireWith } from '../../foundation/access/route-decorators.js';
import { Declares, SCOPE_HEADER, TARGET_HEADER, type GatewayDoor } from '../../foundation/access/route-declarations.js';
import { EXAMPLES, APP_SCOPE_FORMAT, SERVICE_NAME_FORMAT } from '../../foundation/common/names.js';
import { Log } from '../../foundation/logging/log.js';
import { ApiProblems } from '../../foundation/problems/api-problems.js';
import { ProblemException, problems } from '../../foundation/problems/problems.js';

/** Words of RFC 8176. The length is bounded, because a proxy refuses a response with a large header. */
const AMR_PATTERN = '^[a-z]{1,16}( [a-z]{1,16}){0,7}$';
const AMR_WORDS = new RegExp(AMR_PATTERN);

function createGatewayGuard(door: GatewayDoor): Type<CanActivate> {
  @Injectable()
  class GatewayGuard implements CanActivate {
    private readonly loggedMistakes = new Set<string>();

    constructor(
      private readonly doors: Doors,
      private readonly log: Log,
    ) {}

    async canActivate(context: ExecutionContext): Promise<true> {
      const http = context.switchToHttp();
      const [request, response] = [http.getRequest<Request>(), http.getResponse<Response>()];
      const demand = this.readDemand(request);
      try {
        const principal = await this.doors.authenticate(door, request, demand);
        // RequestMetrics counts verdicts by the principal of the request.
        request.user = principal;
        response.set({ 'X-Auth-Door': door, ...toHeaders(principal) });
      } catch (error) {
        throw toGatewayProblem(door, error, demand.appScope);
      }
      return true;
    }

    private readDemand(request: Request): RouteDemand {
      // Null refuses a restricted key: the service behind the gateway sees no key, so it cannot compare scopes itself.
      if (door === 'app') return { target: this.readTarget(request), appScope: this.readScope(request) ?? null };
      // Only app credentials have scopes. A gateway that names one at another door would take an ignored scope for a
      // checked one.
      if (request.headers[SCOPE_HEADER] !== undefined) this.refuseMistake('gateway_misplaces_scope');
      // The node door reads the target itself; here only its form is checked.
      if (door === 'node' && request.headers[TARGET_HEADER] !== undefined) this.readTarget(request);
      return {};
    }

    /** Answers 503 when the gateway names no service: a 401 would be a verdict on a key that the door has not examined. */
    private readTarget({ headers }: Request): string {
      const target = headers[TARGET_HEADER];
      return SERVICE_NAME_FORMAT.isName(target) ? target : this.refuseMistake('gateway_names_no_target');
    }

    private readScope({ headers }: Request): string | undefined {
      const scope = headers[SCOPE_HEADER];
      if (scope === undefined || APP_SCOPE_FORMAT.isName(scope)) return scope;
      return this.refuseMistake('gateway_names_no_scope');
    }

    private refuseMistake(mistake: string): never {
      if (!this.loggedMistakes.has(mistake)) this.log.warn(mistake);
      this.loggedMistakes.add(mistake);
      throw new ProblemException(problems.gatewayMisconfigured, { isLogged: false });
    }
  }
  return mixin(GatewayGuard);
}

/** nginx does not pass on the body of a 403 or 401, so its client reads the reason from the challenge (RFC 6750 §3.1). */
function toGatewayProblem(door: GatewayDoor, error: unknown, scope: RouteDemand['appScope']): ProblemException {
  if (!(error instanceof ProblemException)) return new ProblemException(problems.unavailable, { cause: error });
  const { status, code } = error.problem;
  if (status === 400) return createRefusal(door, 'unreadable');
  if (code === problems.missingScope.code) {
    const challenge = `${DOORS[door].problem.challenge}, error="insufficient_scope"`;
    return error.withHeaders({ 'WWW-Authenticate': scope ? `${challenge}, scope="${scope}"` : challenge });
  }
  return status === 401 ? error : new ProblemException(problems.unavailable, { cause: error });
}

/**
 * The identity that a gateway passes on in place of the credential. A user without a household gets an empty header, so
 * that no gateway leaves one of its client in place.
 */
function toHeaders(principal: Principal): Record<string, string> {
  switch (principal.door) {
    case 'node':
      return { 'X-Auth-Node-Id': principal.nodeId, 'X-Auth-Household-Id': principal.householdId };
    case 'app': {
      const { appId, caller, scopes } = principal;
      return { 'X-Auth-App-Id': appId, 'X-Auth-Caller': caller, ...(scopes && { 'X-Auth-Scopes': scopes.join(' ') }) };
    }
    case 'user': {
      const { userId, sessionId, email, amr } = principal;
      const identity = { 'X-Auth-User-Id': userId, 'X-Auth-Session-Id': sessionId, 'X-Auth-Email': email };
      const ids = requireHouseholds(principal)
        .map(({ id }) => id)
        .join(',');
      return { ...identity, 'X-Auth-Households': ids, ...toAmrHeader(amr) };
    }
    default:
      throw new Error(`Gateways do not ask about the ${principal.door} door`);
  }
}

/** The header is absent when the session states no method, so that a gateway that requires one refuses. */
function toAmrHeader(amr: readonly string[]): Record<string, string> {
  const words = amr.join(' ');
  return AMR_WORDS.test(words) ? { 'X-Auth-Amr': words } : {};
}

type HeaderObject = NonNullable<ApiResponseOptions['headers']>[string];

const AMR_HEADER: HeaderObject = {
  description:
    'How the user authenticated at the login (RFC 8176): words with spaces between them, `mfa` among them with more than one ' +
    'factor. Absent when the session states none.',
  schema: { type: 'string', pattern: AMR_PATTERN, example: 'pwd otp mfa' },
};

const HOUSEHOLDS_HEADER: HeaderObject = {
  description: 'The households of the user, with commas between them; empty without one. Roles are not in it.',
  schema: { type: 'string', example: EXAMPLES.householdId },
};

const SCOPES_HEADER: HeaderObject = {
  description: 'The scopes of a restricted key, with spaces between them. Absent for a key that may do everything.',
  schema: { type: 'string', example: 'documents:read pages:count' },
};

/** Documented as GET at one path; `guardHead` maps every method, and every path below, to it. */
const Authorize = (
  door: GatewayDoor,
  names: readonly string[],
  optional: Readonly<Record<string, HeaderObject>> = {},
) =>
  applyDecorators(
    RequireWith(createGatewayGuard(door), door),
    Declares({
      audience: 'gateways',
      body: 'none',
      namesHouseholds: door === 'user',
      logged: 'failures',
      countedAs: ['validations'],
    }),
    ApiOperation({
      summary: `Authorize a request at a gateway, at the ${door} door`,
      description:
        'For `auth_request` of nginx and the like: any method, any path below, and the body is never read. The answer is ' +
        `200 without a body, 401, ${door === 'app' ? '403 for a missing scope, ' : ''}or 503.`,
    }),
    ApiProblems(problems.gatewayMisconfigured),
    ApiOkResponse({
      description: 'The credential is valid',
      headers: {
        ...Object.fromEntries(['X-Auth-Door', ...names].map((name) => [name, { schema: { type: 'string' } }])),
        ...optional,
      },
    }),
  );

const TARGET_SCHEMA = { ...SERVICE_NAME_FORMAT.schema, example: EXAMPLES.target };

@InternalController('/authorize')
export class AuthorizeController {
  @Get('node')
  @Authorize('node', ['X-Auth-Node-Id', 'X-Auth-Household-Id'])
  @ApiHeader({
    name: 'X-Platform-Target',
    required: false,
    schema: TARGET_SCHEMA,
    description:
      'The service behind the gateway. A node with `targets` is refused without it, and at any other service.',
  })
  authorizeNode(): void {
    // The guard has answered.
  }

  @Get('app')
  @Authorize('app', ['X-Auth-App-Id', 'X-Auth-Caller'], { 'X-Auth-Scopes': SCOPES_HEADER })
  @ApiProblems(problems.missingScope)
  @ApiHeader({
    name: 'X-Platform-Target',
    required: true,
    schema: TARGET_SCHEMA,
    description: 'The service behind the gateway. Without it, or with two of them, the answer is 503.',
  })
  @ApiHeader({
    name: 'X-Platform-Scope',
    required: false,
    schema: APP_SCOPE_FORMAT.schema,
    description:
      'The scope that the route needs. A credential that lacks it is a 403, because its key is valid. So is a restricted ' +
      'one without this header: only keys that may do everything are accepted then.',
  })
  authorizeApp(): void {
    // The guard has answered.
  }

  @Get('user')
  @Authorize('user', ['X-Auth-User-Id', 'X-Auth-Session-Id', 'X-Auth-Email'], {
    'X-Auth-Households': HOUSEHOLDS_HEADER,
    'X-Auth-Amr': AMR_HEADER,
  })
  authorizeUser(): void {
    // The guard has answered.
  }
}
