import type { UserDemands } from './delegation.js';
import { toVerificationError, VerifierConfigurationError, type ProblemResponse } from './errors.js';
import type { PresentedHousehold } from './membership.js';
import type { PresentedRequest } from './presented-request.js';
import type {
  AnyUserPrincipal,
  DelegatedUserPrincipal,
  Door,
  Principal,
  Principals,
  UserPrincipal,
} from './principals.js';
import type { Doors } from './refusals.js';
import type { AppDemands, VerifierCore } from './verifier-core.js';

/** The caller at a route with these demands. */
export type UserOf<Demands extends UserDemands> = Demands extends { delegated: 'only' }
  ? DelegatedUserPrincipal
  : Demands extends { delegated: boolean }
    ? AnyUserPrincipal
    : UserPrincipal;

type Admitted = Principal | AnyUserPrincipal | undefined;

export interface Guard<D extends Door = Door, Identity extends Admitted = Principal<D>> {
  readonly doors: Doors<D>;
  /** @param target the request that the route sees */
  readonly verify: (verifier: VerifierCore, request: PresentedRequest, target: object) => Promise<Identity>;
}

/** What a route demands of a user of a household. */
export interface MemberRoute<Request> {
  /** The id of the household that the request is about, such as `(request) => request.params.id`. */
  readonly household: (request: Request) => PresentedHousehold;
  /** Without a role, every member is admitted. */
  readonly role?: 'admin' | undefined;
}

export const createAppGuard = (demands: AppDemands = {}): Guard<'app'> => ({
  doors: ['app'],
  verify: (verifier, request) => verifier.verifyApp(request, demands),
});

export const NODE_GUARD: Guard<'node'> = {
  doors: ['node'],
  verify: (verifier, request) => verifier.verifyNode(request),
};

export function createUserGuard<Demands extends UserDemands>(demands = {} as Demands): Guard<'user', UserOf<Demands>> {
  const { delegated = false, scope } = demands;
  const isKnown = [false, true, 'only'].includes(delegated);
  if (!isKnown || (scope !== undefined && (typeof scope !== 'string' || delegated === false)))
    throw new VerifierConfigurationError(
      'Let a route accept delegated tokens by true or "only"; a scope is of these alone',
    );
  return {
    doors: ['user'],
    verify: (verifier, request) => verifier.verifyUser(request, demands) as Promise<UserOf<Demands>>,
  };
}

export function createMemberGuard<Request extends object>({ household, role }: MemberRoute<Request>): Guard<'user'> {
  const isRole = role === undefined || (role as unknown) === 'admin';
  if (typeof household !== 'function' || !isRole)
    throw new VerifierConfigurationError(
      'Name the household of a request by a function, and as the role "admin" or none',
    );
  return {
    doors: ['user'],
    verify: (verifier, request, target) =>
      verifier.verifyMember(request, { household: () => household(target as Request), role }),
  };
}

export const createAnyGuard = <D extends Door>(doors: Doors<D>): Guard<D> => ({
  doors: expectDoors(doors),
  verify: (verifier, request) => verifier.verifyAny(request, doors),
});

export const createOptionalGuard = <D extends Door>(doors: Doors<D>): Guard<D, Principal<D> | undefined> => ({
  doors: expectDoors(doors),
  verify: (verifier, request) => verifier.verifyOptional(request, doors),
});

/** Checked at run time, because types do not bind callers in JavaScript. */
function expectDoors<D extends Door>(doors: Doors<D>): Doors<D> {
  const known: readonly unknown[] = ['app', 'node', 'user'];
  if (Array.isArray(doors) && doors.length > 0 && doors.every((door) => known.includes(door))) return doors;
  throw new VerifierConfigurationError(`Name one or more of ${known.join(', ')}`);
}

/** Stores what the guards of a route have found. A symbol, because another program may use `auth`. */
const FOUND: unique symbol = Symbol.for('@platform-auth/verifier');

interface Found {
  /** The doors of all guards that have admitted the request. */
  readonly doors: readonly Door[];
  readonly principals: Partial<Principals>;
}

interface GuardedRequest {
  auth?: Admitted;
  [FOUND]?: Found | undefined;
}

/**
 * Admits a request and sets its caller, or says what to respond. Never rejects, so that a guard never causes a 500.
 * @param target the request that the route sees
 * @returns the response to send; undefined when the request is admitted
 */
export async function admit<D extends Door>(
  { doors, verify }: Guard<D, Admitted>,
  verifier: VerifierCore,
  presented: PresentedRequest,
  target: object,
): Promise<ProblemResponse | undefined> {
  try {
    const principal = await verify(verifier, presented, target);
    const request = target as GuardedRequest;
    const found = request[FOUND];
    request.auth = principal;
    request[FOUND] = {
      doors: [...(found?.doors ?? []), ...doors],
      principals: {
        ...found?.principals,
        ...(principal && { [isDelegated(principal) ? 'delegated' : principal.door]: principal }),
      },
    };
    return undefined;
  } catch (error) {
    return toVerificationError(error).toResponse();
  }
}

/** A service on behalf of a user must not be taken for the user. */
function isDelegated(principal: Principal | AnyUserPrincipal): principal is DelegatedUserPrincipal {
  return principal.door === 'user' && principal.caller !== null;
}

/**
 * @param door `delegated`: a service on behalf of a user, which is not found at the door `user`
 * @returns undefined when no guard has verified a caller at this door
 */
export function findPrincipal<Name extends keyof Principals>(
  request: object,
  door: Name,
): Principals[Name] | undefined {
  return (request as GuardedRequest)[FOUND]?.principals[door];
}

/**
 * @returns the caller at a door that a guard of the route requires
 * @throws {Error} when no guard has verified one there, which is a mistake in the program
 */
export function getPrincipal<Name extends keyof Principals>(request: object, door: Name): Principals[Name] {
  const principal = findPrincipal(request, door);
  if (!principal) throw new Error(`No guard of this route has verified a credential at the door "${door}"`);
  return principal;
}

/** @throws {Error} when no guard of the route is for this door, whatever the caller sent */
export function readPrincipal(request: object, door: Door | undefined): Admitted {
  const { auth, [FOUND]: found } = request as GuardedRequest;
  if (door === undefined) return auth;
  if (!found?.doors.includes(door)) throw new Error(`No guard of this route is for the door "${door}"`);
  return found.principals[door];
}
