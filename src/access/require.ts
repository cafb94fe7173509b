import { applyDecorators, SetMetadata, UseGuards, type CanActivate, type Type } from '@nestjs/common';
import { ApiHeader, ApiSecurity } from '@nestjs/swagger';
import { problems, type Problem } from '../common/problems.js';
import { SERVICE_NAME_PATTERN } from '../common/service-name.js';
import { ApiProblems } from './api-problems.js';
import { AdminGuard, createDoorGuard, ForwardingAppGuard, NodeGuard, PresentedAppGuard, UserGuard } from './door.guard.js';
import { DOORS } from './doors.js';
import type { Door } from './principals.js';

/** Metadata that tells which doors lead to a route: every route has exactly one such declaration. */
export const DOORS_OF_ROUTE = 'doors';

/** How each door is named in the OpenAPI document's security requirements. */
const REQUIREMENTS: Readonly<Record<Door, Record<string, string[]>>> = {
  user: { user: [] },
  app: { app_id: [], app_key: [] },
  node: { node: [] },
  admin: { admin: [] },
};

/** Problems that any route may answer with, whatever it does. */
const ANYWHERE: Problem[] = [
  problems.validationFailed,
  problems.malformedRequest,
  problems.bodyTooDeep,
  problems.duplicateHeader,
  problems.payloadTooLarge,
  problems.unsupportedMediaType,
  problems.internalError,
  problems.unavailable,
];

/** Open to everyone. */
export const Public = () => applyDecorators(SetMetadata(DOORS_OF_ROUTE, []), ApiProblems(...ANYWHERE));

/** A user's access token: `Authorization: Bearer`. */
export const RequireUser = () => through(UserGuard, 'user');

/**
 * A service's key that was presented to another service, which asks: `X-Platform-App-Id` and `X-Platform-App-Key`. On
 * every other route of the app door the key must be one for this service.
 */
export const RequirePresentedApp = () =>
  applyDecorators(
    through(PresentedAppGuard, 'app'),
    ApiHeader({
      name: 'X-Platform-Target',
      required: false,
      schema: { type: 'string', pattern: SERVICE_NAME_PATTERN, example: 'speech-to-text' },
      description: 'Your own name, as the body’s `target`. If you send both, they must agree.',
    }),
  );

/** A node's key: `X-API-Key: node_id:api_key`. The forwarding service's key must hold too, if it is sent or demanded. */
export const RequireNode = () =>
  applyDecorators(
    SetMetadata(DOORS_OF_ROUTE, ['node']),
    UseGuards(ForwardingAppGuard, NodeGuard),
    ApiSecurity(REQUIREMENTS.node),
    ApiSecurity({ ...REQUIREMENTS.node, ...REQUIREMENTS.app }),
    ApiProblems(...ANYWHERE, DOORS.node.problem, DOORS.app.problem),
  );

/** The operator's key: `X-Admin-Key`. */
export const RequireAdmin = () => through(AdminGuard, 'admin');

/** Any one of several doors. */
export const RequireAnyOf = (...doors: [Door, ...Door[]]) => through(createDoorGuard(doors), ...doors);

function through(guard: Type<CanActivate>, ...doors: [Door, ...Door[]]): MethodDecorator {
  const refusals = doors.flatMap((door) =>
    door === 'user' ? [problems.missingAccessToken, DOORS.user.problem] : [DOORS[door].problem],
  );
  if (doors.includes('admin')) refusals.push(problems.tooManyRequests);
  if (doors.length > 1) refusals.unshift(problems.unauthenticated);
  return applyDecorators(
    SetMetadata(DOORS_OF_ROUTE, doors),
    UseGuards(guard),
    ...doors.map((door) => ApiSecurity(REQUIREMENTS[door])),
    ApiProblems(...ANYWHERE, ...refusals),
  );
}
