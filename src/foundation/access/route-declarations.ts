// What a route declares about the requests that it takes. The decorators of route-decorators.ts and of the controllers
// declare it; `RouteTable` compiles it once. Invariant: a guard reads a declaration, and never concludes anything from a
// URL.

import type { CounterName } from '../common/hourly-counters.js';
import type { RouteScope } from '../common/names.js';
import type { Door } from './principals.js';

/** A service that forwards the key of an app or a node names itself in this header. */
export const TARGET_HEADER = 'x-platform-target';
/** A service that forwards an app key names the scope that the call needs in this header. */
export const SCOPE_HEADER = 'x-platform-scope';

/**
 * Who calls a route; with INTERNAL_PORT, PORT serves `anyone` only. Services are not browsers, so unknown headers of
 * theirs are refused, while a gateway passes on the head of its own client.
 */
export type Audience = 'anyone' | 'operators' | 'services' | 'gateways';

/** `json` is parsed before the route, `bytes` is JSON that the route parses itself, `none` is not read. */
type BodyKind = 'json' | 'form' | 'bytes' | 'none';

export type GatewayDoor = Exclude<Door, 'admin'>;

export interface RouteDeclaration {
  /** The credential of any one of these doors suffices. Empty for a route without authentication. */
  readonly doors: readonly Door[];
  /** The operator scope that the admin door requires. */
  readonly scope?: RouteScope;
  /** Whether the operator scope `read` suffices, as for GET: a search whose values stand in its body. */
  readonly isRead?: boolean;
  readonly audience: Audience;
  readonly body: BodyKind;
  /** Other routes refuse these headers: if they ignored one, the caller would believe that it was checked. */
  readonly headers: readonly (typeof TARGET_HEADER | typeof SCOPE_HEADER)[];
  /** Whether the user door reads the households of the user, because the answer names them. */
  readonly namesHouseholds: boolean;
  /** Which requests the request log contains. A refusal is also logged as a security event, whatever this says. */
  readonly logged: 'all' | 'failures' | 'none';
  /** What a request that is answered with 200 counts as in the hourly counts. */
  readonly countedAs: readonly CounterName[];
}

const DECLARATION = 'route-declaration';

/** Declares for one method, or on a class for all its routes. The declaration of the method takes precedence. */
export function Declares(part: Partial<RouteDeclaration>): ClassDecorator & MethodDecorator {
  return (target: object, _name?: string | symbol, descriptor?: PropertyDescriptor): void => {
    const declarer = (descriptor?.value ?? target) as object;
    Reflect.defineMetadata(DECLARATION, { ...readDeclaration(declarer), ...part }, declarer);
  };
}

export function readDeclaration(declarer: object): Partial<RouteDeclaration> {
  return (Reflect.getMetadata(DECLARATION, declarer) ?? {}) as Partial<RouteDeclaration>;
}
