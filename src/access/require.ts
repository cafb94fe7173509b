import { applyDecorators, SetMetadata, UseGuards, type CanActivate, type Type } from '@nestjs/common';
import { ApiExtension, ApiHeader, ApiSecurity } from '@nestjs/swagger';
import { SCOPES, type Scope, MAX_SERVICE_NAME_LENGTH, SERVICE_NAME_PATTERN } from '../common/names.js';
import { type Problem, problems } from '../problems/problems.js';
import { ApiProblems } from '../problems/api-problems.js';
import {
  AppGuard,
  createDoorGuard,
  ForwardedUserGuard,
  ForwardingAppGuard,
  NodeForwardingAppGuard,
  NodeGuard,
  PresentedAppGuard,
  USER_VERDICTS,
  UserGuard,
} from './door.guard.js';
import { DOORS } from './doors.js';
import type { Door } from './principals.js';

/** Metadata key of the doors that a route accepts. Every route declares them exactly once. */
export const DOORS_OF_ROUTE = 'doors';

/** Metadata key of the scope that an operator needs. Every route of the admin door declares exactly one. */
export const SCOPE_OF_ROUTE = 'scope';
/** Member of an operation in the OpenAPI document, until `completeDocument` removes it. */
export const SCOPE_EXTENSION = 'x-scope';

const ADMIN_GUARDS = Object.fromEntries(SCOPES.map((scope) => [scope, createDoorGuard(['admin'], scope)])) as Record<
  Scope,
  Type<CanActivate>
>;

/** The security requirements of each door in the OpenAPI document. */
const REQUIREMENTS: Readonly<Record<Door, Record<string, string[]>>> = {
  user: { user: [] },
  app: { app_id: [], app_key: [] },
  node: { node: [] },
  admin: { admin: [] },
};

/** Problems that every route may answer with. */
const COMMON_PROBLEMS: Problem[] = [
  problems.validationFailed,
  problems.malformedRequest,
  problems.bodyTooDeep,
  problems.duplicateHeader,
  problems.payloadTooLarge,
  problems.unsupportedMediaType,
  problems.internalError,
  problems.unavailable,
];

/** Requires no credential. */
export const Public = () => applyDecorators(SetMetadata(DOORS_OF_ROUTE, []), ApiProblems(...COMMON_PROBLEMS));

/** A user's access token: `Authorization: Bearer`. */
export const RequireUser = () => RequireWith(UserGuard, 'user');

/**
 * An app key that a caller presented to another service, which forwards it: `X-Platform-App-Id` and
 * `X-Platform-App-Key`. On every other route of the app door the key's target must be this service.
 */
export const RequirePresentedApp = () =>
  applyDecorators(
    RequireWith(PresentedAppGuard, 'app'),
    ApiHeader({
      name: 'X-Platform-Target',
      required: false,
      schema: { type: 'string', pattern: SERVICE_NAME_PATTERN, maxLength: MAX_SERVICE_NAME_LENGTH },
      description: 'Your own name, as the body’s `target`. If you send both, they must agree.',
    }),
  );

/** A node's key that a service forwards: `X-API-Key: node_id:api_key`. */
export const RequireNode = () => requireForwarded('node', [NodeForwardingAppGuard, NodeGuard], DOORS.node.problem);

/** A user's access token that a service forwards. */
export const RequireForwardedUser = () =>
  requireForwarded('user', [ForwardingAppGuard, ForwardedUserGuard], ...USER_VERDICTS);

/**
 * An admin key: `X-Admin-Key`.
 * @param scope that an operator needs; `read` is enough for a GET
 */
export const RequireAdmin = (scope: Scope) =>
  applyDecorators(RequireWith(ADMIN_GUARDS[scope], 'admin'), NeedsScope(scope));

/** An app key of this service's own callers: `X-Platform-App-Id` and `X-Platform-App-Key`. */
export const RequireApp = () => RequireWith(AppGuard, 'app');

type OtherDoor = Exclude<Door, 'admin'>;

/** A credential of the admin door or of another one. */
export const RequireAdminOr = (scope: Scope, ...others: [OtherDoor, ...OtherDoor[]]) =>
  applyDecorators(RequireWith(createDoorGuard(['admin', ...others], scope), 'admin', ...others), NeedsScope(scope));

const NeedsScope = (scope: Scope) =>
  applyDecorators(
    SetMetadata(SCOPE_OF_ROUTE, scope),
    ApiExtension(SCOPE_EXTENSION, scope),
    ApiProblems(problems.missingScope),
  );

/** Declares the doors of a route that has a guard of its own. */
export function RequireWith(guard: Type<CanActivate>, ...doors: [Door, ...Door[]]): MethodDecorator {
  const refusals = doors.flatMap((door): Problem[] =>
    door === 'user' ? [problems.missingAccessToken, DOORS.user.problem] : [DOORS[door].problem],
  );
  if (doors.includes('admin')) refusals.push(problems.tooManyRequests);
  if (doors.length > 1) refusals.unshift(problems.unauthenticated);
  return applyDecorators(
    SetMetadata(DOORS_OF_ROUTE, doors),
    UseGuards(guard),
    ...doors.map((door) => ApiSecurity(REQUIREMENTS[door])),
    ApiProblems(...COMMON_PROBLEMS, ...refusals),
  );
}

/** The forwarding service's own key must be valid too, if it is sent or required. */
function requireForwarded(door: Door, guards: Type<CanActivate>[], ...refusals: Problem[]): MethodDecorator {
  return applyDecorators(
    SetMetadata(DOORS_OF_ROUTE, [door]),
    UseGuards(...guards),
    ApiSecurity(REQUIREMENTS[door]),
    ApiSecurity({ ...REQUIREMENTS[door], ...REQUIREMENTS.app }),
    ApiProblems(...COMMON_PROBLEMS, ...refusals, DOORS.app.problem),
  );
}
