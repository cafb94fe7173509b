// What a route declares about the requests that it takes. The decorators of require.ts and of the controllers declare it;
// `RouteTable` compiles it once. Invariant: a guard reads a declaration, and never concludes anything from a URL.

import type { RouteScope } from '../common/names.js';
import type { Door } from './actor.js';

/** In which a service that forwards the key of a service or a node names itself. */
export const TARGET_HEADER = 'x-platform-target';
/** In which a service that forwards an app key names the scope that the call needs. */
export const SCOPE_HEADER = 'x-platform-scope';

/**
 * Who calls a route. With INTERNAL_PORT, only `anyone` is served on PORT. Services are not browsers: the head of their
 * requests is judged more strictly. A gateway passes on the method, the path and the headers of its own client.
 */
export type Audience = 'anyone' | 'operators' | 'services' | 'gateways';

/** `json` is parsed before the route; `bytes` is JSON that the route parses itself, after authentication; `none` is not read. */
export type BodyKind = 'json' | 'form' | 'bytes' | 'none';

/** The doors that a gateway may ask. */
export type GatewayDoor = Exclude<Door, 'admin'>;

export interface RouteDeclaration {
  /** Any of which opens it. Empty for a route without authentication. */
  readonly doors: readonly Door[];
  /** Which an operator needs, where the admin door is one of the doors. */
  readonly scope?: RouteScope;
  readonly audience: Audience;
  readonly body: BodyKind;
  /** Headers that only routes which read them accept: ignored, they would pass for checked. */
  readonly headers: readonly (typeof TARGET_HEADER | typeof SCOPE_HEADER)[];
  /** Which of its requests the request log has. Refusals are security events besides. */
  readonly logged: 'all' | 'failures' | 'none';
}

const DECLARATION = 'route-declaration';

/** On a method, or on a class for all its routes. What the method declares precedes what the class does. */
export function Declares(part: Partial<RouteDeclaration>): ClassDecorator & MethodDecorator {
  return (target: object, _name?: string | symbol, descriptor?: PropertyDescriptor): void => {
    const declarer = (descriptor?.value ?? target) as object;
    Reflect.defineMetadata(DECLARATION, { ...readDeclaration(declarer), ...part }, declarer);
  };
}

export function readDeclaration(declarer: object): Partial<RouteDeclaration> {
  return (Reflect.getMetadata(DECLARATION, declarer) ?? {}) as Partial<RouteDeclaration>;
}
