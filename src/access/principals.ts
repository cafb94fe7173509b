import { createParamDecorator, type ExecutionContext } from '@nestjs/common';
import type { Request } from 'express';

/** Who came through a door (contract of the four doors). */
export interface UserPrincipal {
  readonly door: 'user';
  readonly userId: string;
  readonly sessionId: string;
}

export interface AppPrincipal {
  readonly door: 'app';
  readonly appId: string;
  readonly caller: string;
  readonly target: string;
}

export interface NodePrincipal {
  readonly door: 'node';
  readonly nodeId: string;
  readonly householdId: string;
}

export interface AdminPrincipal {
  readonly door: 'admin';
}

export type Principal = UserPrincipal | AppPrincipal | NodePrincipal | AdminPrincipal;
export type Door = Principal['door'];

/** The principal that the route's door let in. */
export const CurrentPrincipal = createParamDecorator((_: unknown, context: ExecutionContext): Principal => {
  const { user } = context.switchToHttp().getRequest<Request>();
  if (!user) throw new Error('This route has no door');
  return user as Principal;
});
