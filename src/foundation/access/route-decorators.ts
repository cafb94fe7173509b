// The decorators by which each route declares its doors exactly once, and the guards that they put in front of it.
import {
  applyDecorators,
  Controller,
  HttpCode,
  Injectable,
  UseGuards,
  type CanActivate,
  type ExecutionContext,
  type Type,
} from '@nestjs/common';
import {
  ApiBody,
  ApiExtension,
  ApiHeader,
  ApiOperation,
  ApiResponse,
  ApiSecurity,
  ApiTags,
  type ApiResponseOptions,
} from '@nestjs/swagger';
import type { Request } from 'express';
import { APP_SCOPE_FORMAT, SERVICE_NAME_FORMAT, type RouteScope, type OperatorScope } from '../common/names.js';
import { Environment } from '../config/environment.js';
import { ApiProblems } from '../problems/api-problems.js';
import {
  NOT_VALID,
  ProblemException,
  problems,
  type Problem,
  refuseField,
  refuseUnknownFields,
  THROTTLE_PROBLEMS,
} from '../problems/problems.js';
import { Doors, type RouteDemand } from './doors.js';
import { DOORS, type AppPrincipal, type Door } from './principals.js';
import { getDeclaredRoute } from './route-table.js';
import { Declares, SCOPE_HEADER, TARGET_HEADER, type RouteDeclaration } from './route-declarations.js';

/**
 * The operation of the OpenAPI document carries its operator scope here, until `completeDocument` turns it into text.
 */
export const SCOPE_EXTENSION = 'x-scope';

/** The security requirement of the OpenAPI document: one scheme for each header of the doors. */
const toRequirement = (...doors: readonly Door[]): Record<string, string[]> =>
  Object.fromEntries(doors.flatMap((door) => DOORS[door].schemes.map((scheme) => [scheme, []])));

const PROBLEMS_OF_EVERY_ROUTE: Problem[] = [
  problems.validationFailed,
  problems.malformedRequest,
  problems.bodyTooDeep,
  problems.duplicateHeader,
  problems.payloadTooLarge,
  problems.unsupportedMediaType,
  problems.internalError,
  problems.unavailable,
];

/**
 * Requires a valid credential for one of the route's doors. With several doors, the first one for which the request
 * presents a credential decides: a second credential does not make up for an invalid one.
 */
@Injectable()
class DoorGuard implements CanActivate {
  constructor(protected readonly doors: Doors) {}

  async canActivate(context: ExecutionContext): Promise<boolean> {
    const request = context.switchToHttp().getRequest<Request>();
    const { doors, scope } = getDeclaredRoute(request);
    const door = doors.length === 1 ? doors[0] : doors.find((each) => this.doors.hasCredential(each, request));
    if (!door) throw new ProblemException(problems.unauthenticated);
    request.user = await this.doors.authenticate(door, request, this.ask(request, scope));
    return true;
  }

  protected ask(_request: Request, operatorScope: RouteScope | undefined): RouteDemand {
    return { operatorScope };
  }
}

export function RequireWith(guard: Type<CanActivate>, ...doors: [Door, ...Door[]]): MethodDecorator {
  const refusals = doors.flatMap((door): Problem[] =>
    door === 'user' ? [problems.missingAccessToken, DOORS.user.problem] : [DOORS[door].problem],
  );
  if (doors.includes('admin')) refusals.push(...THROTTLE_PROBLEMS);
  if (doors.length > 1) refusals.unshift(problems.unauthenticated);
  return applyDecorators(
    Declares({ doors }),
    UseGuards(guard),
    ...doors.map((door) => ApiSecurity(toRequirement(door))),
    ApiProblems(...PROBLEMS_OF_EVERY_ROUTE, ...refusals),
  );
}

/** Documents the successful response: a class for its body, or a description when it has no body. */
export function Answers(
  status: 200 | 201 | 202 | 204,
  answer: Type | string,
  headers: ApiResponseOptions['headers'] = {},
): MethodDecorator {
  const described = typeof answer === 'string' ? { description: answer, headers } : { type: answer, headers };
  return applyDecorators(HttpCode(status), ApiResponse({ status, ...described }));
}

/** What a route does, for the API's document. One with neither `returns` nor `creates` answers without a body. */
interface RouteDescription {
  readonly summary: string;
  readonly description?: string;
  /** Problems of this route, in addition to those that its door answers with. */
  readonly refusals?: readonly Problem[];
  readonly returns?: Type;
  readonly creates?: Type;
  /** The description of the 204. */
  readonly done?: string;
  /** The description of the 202 that replaces the 204. */
  readonly accepted?: string;
  /** Of the answer that `returns` describes. */
  readonly headers?: ApiResponseOptions['headers'];
  /** The class of the body, if the client may leave the body out. */
  readonly optionalBody?: Type;
}

interface AdminRoute extends RouteDescription {
  /** Whether a POST only reads. */
  readonly isRead?: true;
}

function Describes({ refusals = [], optionalBody, ...route }: RouteDescription): MethodDecorator {
  const { returns, creates, done = '', accepted, headers, ...operation } = route;
  const withoutBody = accepted === undefined ? Answers(204, done) : Answers(202, accepted);
  return applyDecorators(
    creates ? Answers(201, creates) : returns ? Answers(200, returns, headers) : withoutBody,
    ApiOperation(operation),
    ...(optionalBody ? [ApiBody({ type: optionalBody, required: false })] : []),
    ApiProblems(...refusals),
  );
}

/** @param route undefined for a page of the console, and for a route that documents its answers itself (/health) */
export const Public = (route?: RouteDescription) =>
  applyDecorators(
    ...(route ? [Describes(route)] : []),
    Declares({ doors: [] }),
    ApiProblems(...PROBLEMS_OF_EVERY_ROUTE),
  );

export const RequireUser = (route: RouteDescription) =>
  applyDecorators(Describes(route), RequireWith(DoorGuard, 'user'));

/** Requires an app key whose target is this service. */
export const RequireApp = (route: RouteDescription) => applyDecorators(Describes(route), RequireWith(DoorGuard, 'app'));

/** @param scope the operator scope that the route needs; `read` suffices for every GET, and for `isRead` */
export function RequireAdmin(scope: RouteScope, { isRead, ...route }: AdminRoute): MethodDecorator {
  return applyDecorators(Describes(route), RequireWith(DoorGuard, 'admin'), NeedsScope(scope, isRead));
}

/** @param path below `/api/v0/admin`, beginning with a slash */
export const AdminController = (path = ''): ClassDecorator =>
  applyDecorators(ApiTags('admin'), Controller(`api/v0/admin${path}`), Declares({ audience: 'operators' }));

/** @param path below `/internal`, beginning with a slash */
export const InternalController = (path = ''): ClassDecorator =>
  applyDecorators(ApiTags('internal'), Controller(`internal${path}`), Declares({ audience: 'services' }));

type OtherDoor = Exclude<Door, 'admin'>;

export const RequireAdminOr = (
  scope: OperatorScope,
  others: readonly [OtherDoor, ...OtherDoor[]],
  route: RouteDescription,
) => applyDecorators(Describes(route), RequireWith(DoorGuard, 'admin', ...others), NeedsScope(scope));

export type NeededScope = Pick<RouteDeclaration, 'isRead'> & { readonly scope: RouteScope };

function NeedsScope(scope: RouteScope, isRead = false) {
  const needed: NeededScope = { scope, isRead };
  return applyDecorators(Declares(needed), ApiExtension(SCOPE_EXTENSION, needed), ApiProblems(problems.missingScope));
}

@Injectable()
class PresentedAppGuard extends DoorGuard {
  protected override ask(request: Request): RouteDemand {
    return { target: readPresentedTarget(request), appScope: readAskedScope(request) };
  }
}

/**
 * @returns null when the service that forwards the key does not name itself
 * @throws {ProblemException} validation_failed for any other field, because a misspelt `target` must not count as
 * absent
 */
function readPresentedTarget({ headers, body }: Request): string | null {
  refuseUnknownFields(body, 'target');
  const inHeader = readTargetHeader(headers);
  const inBody = (body as { target?: unknown } | undefined)?.target;
  if (inBody === undefined) return inHeader ?? null;
  if (!SERVICE_NAME_FORMAT.isName(inBody)) refuseField('/target', SERVICE_NAME_FORMAT.detail);
  if (inHeader !== undefined && inHeader !== inBody) refuseField('/target', 'must agree with X-Platform-Target');
  return inBody;
}

function readTargetHeader(headers: Request['headers']): string | undefined {
  const target = headers[TARGET_HEADER];
  if (target === undefined || SERVICE_NAME_FORMAT.isName(target)) return target;
  return refuseField('', `X-Platform-Target ${SERVICE_NAME_FORMAT.detail}`);
}

function readAskedScope({ headers }: Request): string | undefined {
  const scope = headers[SCOPE_HEADER];
  if (scope === undefined || APP_SCOPE_FORMAT.isName(scope)) return scope;
  return refuseField('', `X-Platform-Scope ${APP_SCOPE_FORMAT.detail}`);
}

const describeTargetHeader = (description: string) =>
  ApiHeader({ name: 'X-Platform-Target', required: false, schema: SERVICE_NAME_FORMAT.schema, description });

/** Requires an app key that another service forwards. The key's target must be that service. */
export const RequirePresentedApp = (route: RouteDescription) =>
  applyDecorators(
    Describes(route),
    RequireWith(PresentedAppGuard, 'app'),
    Declares({ headers: [TARGET_HEADER, SCOPE_HEADER], logged: 'failures', countedAs: ['validations'] }),
    describeTargetHeader('Your own name, as the body’s `target`. If you send both, they must agree.'),
    ApiHeader({
      name: 'X-Platform-Scope',
      required: false,
      schema: APP_SCOPE_FORMAT.schema,
      description: 'The scope that the call needs. A credential that lacks it is a 403, because its key is valid.',
    }),
    ApiProblems(problems.missingScope),
  );

/**
 * Validates the own app credential of a service that forwards another caller's, if it is sent or required. Refuses
 * fields in the body, because a target there would be ignored.
 */
@Injectable()
class ForwardingAppGuard implements CanActivate {
  constructor(
    private readonly doors: Doors,
    protected readonly environment: Environment,
  ) {}

  /** Returns a promise only when it authenticates an app, because each promise costs the hot path time. */
  canActivate(context: ExecutionContext): boolean | Promise<boolean> {
    const request = context.switchToHttp().getRequest<Request>();
    refuseUnknownFields(request.body);
    const isNeeded = this.isRequired || this.doors.hasCredential('app', request);
    return isNeeded ? this.authenticateService(request) : true;
  }

  protected get isRequired(): boolean {
    return false;
  }

  /** The app stays the principal until the next guard authenticates the forwarded credential. */
  private async authenticateService(request: Request): Promise<boolean> {
    request.user = await this.doors.authenticate('app', request);
    return true;
  }
}

/**
 * Refuses a malformed target before the node is authenticated. The operator may demand the forwarder's key
 * (VALIDATE_NODE_REQUIRES_APP).
 */
@Injectable()
class NodeForwardingAppGuard extends ForwardingAppGuard {
  override canActivate(context: ExecutionContext): boolean | Promise<boolean> {
    readTargetHeader(context.switchToHttp().getRequest<Request>().headers);
    return super.canActivate(context);
  }

  protected override get isRequired(): boolean {
    return this.environment.validateNodeRequiresApp;
  }
}

/** Refusals of the user door that also say `valid: false` in their body, which `validate-user` answers with. */
const USER_VERDICTS = [problems.missingAccessToken, problems.invalidAccessToken].map((problem) => ({
  ...problem,
  extension: NOT_VALID,
}));

@Injectable()
class ForwardedUserGuard extends DoorGuard {
  constructor(
    doors: Doors,
    private readonly environment: Environment,
  ) {
    super(doors);
  }

  override async canActivate(context: ExecutionContext): Promise<boolean> {
    const request = context.switchToHttp().getRequest<Request>();
    try {
      const delegated = this.doors.readDelegated(request);
      if (delegated === undefined) {
        // Without a token the target is the mistake; a forged token is a 401 also beside one.
        if (request.headers.authorization === undefined) refuseUnusedTarget(request, this.environment);
        await super.canActivate(context);
        refuseUnusedTarget(request, this.environment);
        return true;
      }
      request.user = await this.doors.authenticateDelegated(request, delegated, readOwnName(request));
      return true;
    } catch (error) {
      if (!(error instanceof ProblemException)) throw error;
      const { problem, occurrence } = error;
      const verdict = USER_VERDICTS.find(({ code }) => code === problem.code);
      throw verdict ? new ProblemException(verdict, occurrence) : error;
    }
  }
}

/** The user's own token is for every service, so a target would be ignored. */
function refuseUnusedTarget({ headers }: Request, { serviceName }: Environment): void {
  const target = headers[TARGET_HEADER];
  if (target !== undefined && target !== serviceName) refuseField('', 'X-Platform-Target is not read for this token');
}

/** @returns the name that the forwarding service gives itself, if its own credential is one of that service */
function readOwnName({ headers, user }: Request): string | undefined {
  const forwarder = user as AppPrincipal | undefined;
  return forwarder && forwarder.caller === readTargetHeader(headers) ? forwarder.caller : undefined;
}

function buildForwardedDoor(door: Door, guards: Type<CanActivate>[], ...refusals: Problem[]): MethodDecorator {
  return applyDecorators(
    Declares({ doors: [door], logged: 'failures', countedAs: ['validations'] }),
    UseGuards(...guards),
    ApiSecurity(toRequirement(door)),
    ApiSecurity(toRequirement(door, 'app')),
    ApiProblems(...PROBLEMS_OF_EVERY_ROUTE, ...refusals, DOORS.app.problem),
  );
}

export const RequireNode = (route: RouteDescription) =>
  applyDecorators(
    Describes(route),
    buildForwardedDoor('node', [NodeForwardingAppGuard, DoorGuard], DOORS.node.problem),
    Declares({ headers: [TARGET_HEADER] }),
    describeTargetHeader('Your own name. A node with `targets` is refused without it, and at any other service.'),
  );

@Injectable()
class OwnKeyGuard extends DoorGuard {
  protected override ask(): RouteDemand {
    return { isOwnKey: true };
  }
}

/** Requires the node itself. Its targets do not restrict it, because they never name this service. */
export const RequireNodeItself = (route: RouteDescription) =>
  applyDecorators(Describes(route), RequireWith(OwnKeyGuard, 'node'));

export const RequireForwardedUser = (route: RouteDescription) =>
  applyDecorators(
    Describes(route),
    buildForwardedDoor('user', [ForwardingAppGuard, ForwardedUserGuard], ...USER_VERDICTS),
    Declares({ headers: [TARGET_HEADER], namesHouseholds: true }),
    describeTargetHeader(
      'Your own name, for a token that another service got on behalf of the user: it is valid only with your own app ' +
        'credential, and for you. For the user’s own token, leave it out.',
    ),
  );
