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
import { APP_SCOPE, SERVICE_NAME, type RouteScope, type Scope } from '../common/names.js';
import { Environment } from '../config/environment.js';
import { ApiProblems } from '../problems/api-problems.js';
import {
  NOT_VALID,
  ProblemException,
  problems,
  type Problem,
  refuseField,
  refuseUnknownFields,
} from '../problems/problems.js';
import { Doors, DOORS, type Asked } from './doors.js';
import type { Door } from './actor.js';
import { getDeclaredRoute } from './route-table.js';
import { Declares, SCOPE_HEADER, TARGET_HEADER } from './route-declarations.js';

/** Member of an operation in the OpenAPI document, until `completeDocument` removes it. */
export const SCOPE_EXTENSION = 'x-scope';

const REQUIREMENTS: Readonly<Record<Door, Record<string, string[]>>> = {
  user: { user: [] },
  app: { app_id: [], app_key: [] },
  node: { node: [] },
  admin: { admin: [] },
};

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
 * Admits requests with a valid credential for one of the doors that the route declares. With several doors, the first one that the request presents a
 * credential for decides: another credential does not make up for an invalid one.
 */
@Injectable()
class DoorGuard implements CanActivate {
  constructor(private readonly doors: Doors) {}

  async canActivate(context: ExecutionContext): Promise<boolean> {
    const request = context.switchToHttp().getRequest<Request>();
    const { doors, scope } = getDeclaredRoute(request);
    const door = doors.length === 1 ? doors[0] : doors.find((each) => this.doors.presentsCredential(each, request));
    if (!door) throw new ProblemException(problems.unauthenticated);
    request.user = await this.doors.authenticate(door, request, this.ask(request, scope));
    return true;
  }

  protected ask(_request: Request, scope: RouteScope | undefined): Asked {
    return { scope };
  }
}

export function RequireWith(guard: Type<CanActivate>, ...doors: [Door, ...Door[]]): MethodDecorator {
  const refusals = doors.flatMap((door): Problem[] =>
    door === 'user' ? [problems.missingAccessToken, DOORS.user.problem] : [DOORS[door].problem],
  );
  if (doors.includes('admin')) refusals.push(problems.tooManyRequests);
  if (doors.length > 1) refusals.unshift(problems.unauthenticated);
  return applyDecorators(
    Declares({ doors }),
    UseGuards(guard),
    ...doors.map((door) => ApiSecurity(REQUIREMENTS[door])),
    ApiProblems(...PROBLEMS_OF_EVERY_ROUTE, ...refusals),
  );
}

export const Public = () => applyDecorators(Declares({ doors: [] }), ApiProblems(...PROBLEMS_OF_EVERY_ROUTE));

export const RequireUser = () => RequireWith(DoorGuard, 'user');

/** The key's target must be this service. */
export const RequireApp = () => RequireWith(DoorGuard, 'app');

/** What a route answers when it succeeds: a body of this class, or no body, with a description for the OpenAPI document. */
export function Answers(
  status: 200 | 201 | 202 | 204,
  answer: Type | string,
  headers: NonNullable<ApiResponseOptions['headers']> = {},
): MethodDecorator {
  const described = typeof answer === 'string' ? { description: answer, headers } : { type: answer, headers };
  return applyDecorators(HttpCode(status), ApiResponse({ status, ...described }));
}

/** What the OpenAPI document says of a route of operators. Without `returns` and `creates`, it answers 204. */
interface AdminRoute {
  readonly summary: string;
  readonly description?: string;
  /** Besides the refusals of the door. */
  readonly refusals?: readonly Problem[];
  readonly returns?: Type;
  readonly creates?: Type;
  /** The body, when the client may leave it out. */
  readonly optionalBody?: Type;
}

/** @param path below that of the operators' API, with its first slash */
export const AdminController = (path = ''): ClassDecorator =>
  applyDecorators(ApiTags('admin'), Controller(`api/v0/admin${path}`), Declares({ audience: 'operators' }));

/** @param path below `/internal`, with its first slash */
export const InternalController = (path = ''): ClassDecorator =>
  applyDecorators(ApiTags('internal'), Controller(`internal${path}`), Declares({ audience: 'services' }));

/** @param scope that an operator needs; `read` is enough for a GET */
export function RequireAdmin(
  scope: RouteScope,
  { refusals = [], returns, creates, ...route }: AdminRoute,
): MethodDecorator {
  const { optionalBody, ...operation } = route;
  return applyDecorators(
    creates ? Answers(201, creates) : Answers(returns ? 200 : 204, returns ?? ''),
    ApiOperation(operation),
    ...(optionalBody ? [ApiBody({ type: optionalBody, required: false })] : []),
    ApiProblems(...refusals),
    RequireWith(DoorGuard, 'admin'),
    NeedsScope(scope),
  );
}

type OtherDoor = Exclude<Door, 'admin'>;

export const RequireAdminOr = (scope: Scope, ...others: [OtherDoor, ...OtherDoor[]]) =>
  applyDecorators(RequireWith(DoorGuard, 'admin', ...others), NeedsScope(scope));

const NeedsScope = (scope: RouteScope) =>
  applyDecorators(Declares({ scope }), ApiExtension(SCOPE_EXTENSION, scope), ApiProblems(problems.missingScope));

@Injectable()
class PresentedAppGuard extends DoorGuard {
  protected override ask(request: Request): Asked {
    return { target: readPresentedTarget(request), appScope: readAskedScope(request) };
  }
}

/**
 * @returns null when the service that forwards the key does not name itself
 * @throws {ProblemException} validation_failed, also for any other field: a misspelt target must not count as absent
 */
function readPresentedTarget({ headers, body }: Request): string | null {
  refuseUnknownFields(body, 'target');
  const inHeader = readTargetHeader(headers);
  const inBody = (body as { target?: unknown } | undefined)?.target;
  if (inBody === undefined) return inHeader ?? null;
  if (!SERVICE_NAME.isName(inBody)) refuseField('/target', SERVICE_NAME.detail);
  if (inHeader !== undefined && inHeader !== inBody) refuseField('/target', 'must agree with X-Platform-Target');
  return inBody;
}

function readTargetHeader(headers: Request['headers']): string | undefined {
  const target = headers[TARGET_HEADER];
  if (target === undefined || SERVICE_NAME.isName(target)) return target;
  return refuseField('', `X-Platform-Target ${SERVICE_NAME.detail}`);
}

function readAskedScope({ headers }: Request): string | undefined {
  const scope = headers[SCOPE_HEADER];
  if (scope === undefined || APP_SCOPE.isName(scope)) return scope;
  return refuseField('', `X-Platform-Scope ${APP_SCOPE.detail}`);
}

const describeTargetHeader = (description: string) =>
  ApiHeader({ name: 'X-Platform-Target', required: false, schema: SERVICE_NAME.schema, description });

/** An app key that a caller presented to another service, which forwards it. The key's target must be that service. */
export const RequirePresentedApp = () =>
  applyDecorators(
    RequireWith(PresentedAppGuard, 'app'),
    Declares({ headers: [TARGET_HEADER, SCOPE_HEADER], logged: 'failures' }),
    describeTargetHeader('Your own name, as the body’s `target`. If you send both, they must agree.'),
    ApiHeader({
      name: 'X-Platform-Scope',
      required: false,
      schema: APP_SCOPE.schema,
      description: 'The scope that the call needs. A credential that lacks it is a 403, because its key is valid.',
    }),
    ApiProblems(problems.missingScope),
  );

/**
 * The own credential of a service that forwards another caller's must be valid too, if it is sent or required. Fields are
 * refused, because a target in the body would be ignored.
 */
@Injectable()
class ForwardingAppGuard implements CanActivate {
  constructor(
    private readonly doors: Doors,
    protected readonly environment: Environment,
  ) {}

  /** Returns a promise only when it must: each one costs the hot path. */
  canActivate(context: ExecutionContext): boolean | Promise<boolean> {
    const request = context.switchToHttp().getRequest<Request>();
    refuseUnknownFields(request.body);
    const isNeeded = this.isRequired || this.doors.presentsCredential('app', request);
    return isNeeded ? this.authenticateService(request) : true;
  }

  protected get isRequired(): boolean {
    return false;
  }

  /** The app is the principal until the next guard authenticates the node, whose principal names the app. */
  private async authenticateService(request: Request): Promise<boolean> {
    request.user = await this.doors.authenticate('app', request);
    return true;
  }
}

/** For the route of nodes, the only one with a target, and where operators may demand the service's own credential. */
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

/** On `validate-user`, the body of a refusal of the user door says `valid: false` too. */
const USER_VERDICTS = [problems.missingAccessToken, problems.invalidAccessToken].map((problem) => ({
  ...problem,
  extension: NOT_VALID,
}));

@Injectable()
class ForwardedUserGuard extends DoorGuard {
  override async canActivate(context: ExecutionContext): Promise<boolean> {
    try {
      return await super.canActivate(context);
    } catch (error) {
      if (!(error instanceof ProblemException)) throw error;
      const { problem, occurrence } = error;
      const verdict = USER_VERDICTS.find(({ code }) => code === problem.code);
      throw verdict ? new ProblemException(verdict, occurrence) : error;
    }
  }
}

function requireForwarded(door: Door, guards: Type<CanActivate>[], ...refusals: Problem[]): MethodDecorator {
  return applyDecorators(
    Declares({ doors: [door], logged: 'failures' }),
    UseGuards(...guards),
    ApiSecurity(REQUIREMENTS[door]),
    ApiSecurity({ ...REQUIREMENTS[door], ...REQUIREMENTS.app }),
    ApiProblems(...PROBLEMS_OF_EVERY_ROUTE, ...refusals, DOORS.app.problem),
  );
}

export const RequireNode = () =>
  applyDecorators(
    requireForwarded('node', [NodeForwardingAppGuard, DoorGuard], DOORS.node.problem),
    Declares({ headers: [TARGET_HEADER] }),
    describeTargetHeader('Your own name. A node with `targets` is refused without it, and at any other service.'),
  );

export const RequireForwardedUser = () =>
  requireForwarded('user', [ForwardingAppGuard, ForwardedUserGuard], ...USER_VERDICTS);
