import {
  createParamDecorator,
  HttpException,
  Inject,
  Injectable,
  mixin,
  Module,
  UseGuards,
  type CanActivate,
  type DynamicModule,
  type ExecutionContext,
  type OnApplicationShutdown,
  type Type,
} from '@nestjs/common';
import type { IncomingMessage } from 'node:http';
import {
  admit,
  createAnyGuard,
  createAppGuard,
  createMemberGuard,
  createOptionalGuard,
  NODE_GUARD,
  readPrincipal,
  createUserGuard,
  type Guard,
  type MemberRoute,
} from './guard.js';
import { toPresentedRequest } from './presented-request.js';
import type { UserDemands } from './delegation.js';
import type { AnyUserPrincipal, Door, Principal as PrincipalOf } from './principals.js';
import type { Doors } from './refusals.js';
import { Verifier } from './verifier.js';
import { VerifierCore, type AppDemands } from './verifier-core.js';

/** The token of the provider, with which a service injects the verifier, or overrides it in a test. */
export { VerifierCore };
export { findPrincipal, getPrincipal } from './guard.js';

interface FastifyRequest {
  readonly raw: IncomingMessage;
  readonly ip: string;
}

/** The context that the drivers of @nestjs/graphql make: Apollo, and Mercurius. */
interface GraphqlContext {
  readonly req?: IncomingMessage | FastifyRequest;
  readonly reply?: { readonly request?: FastifyRequest };
}

/** A response of Express or of Fastify. */
interface HttpResponse {
  setHeader?(name: string, value: string): unknown;
  getHeader?(name: string): unknown;
  writeHead?(...parameters: unknown[]): unknown;
  header?(name: string, value: string): unknown;
}

@Module({})
export class PlatformAuthModule implements OnApplicationShutdown {
  constructor(@Inject(VerifierCore) private readonly verifier: VerifierCore) {}

  /** @param verifier by default made from the environment, when the module is created */
  static forRoot(verifier?: VerifierCore): DynamicModule {
    const provider = { provide: VerifierCore, useFactory: () => verifier ?? Verifier.fromEnvironment() };
    return { module: PlatformAuthModule, global: true, providers: [provider], exports: [VerifierCore] };
  }

  onApplicationShutdown(): void {
    this.verifier.close();
  }
}

type Guarding = ClassDecorator & MethodDecorator;

/** Admits requests with a valid key of another service for this one, and with the scope, if one is demanded. */
export const RequireApp = (demands?: AppDemands): Guarding => UseGuards(createGuard(createAppGuard(demands)));

/** Admits requests with a valid key of a node. */
export const RequireNode = (): Guarding => UseGuards(createGuard(NODE_GUARD));

/**
 * Admits requests with a valid access token of a user. With `delegated`, also those of a service on behalf of a user, with the
 * scope, if one is demanded: `@Principal() caller: UserPrincipal | DelegatedUserPrincipal`.
 */
export const RequireUser = (demands?: UserDemands): Guarding => UseGuards(createGuard(createUserGuard(demands)));

/** A request of Express or Fastify. */
interface RoutedRequest {
  readonly params: Readonly<Record<string, string | undefined>>;
}

/**
 * Admits requests with a valid access token of a user who lives in the household, and has the role, if one is demanded.
 * In GraphQL, whose arguments are not in the request, call `verifyMember` in the resolver.
 */
export const RequireMember = <Request extends object = RoutedRequest>(route: MemberRoute<Request>): Guarding =>
  UseGuards(createGuard(createMemberGuard(route)));

/** Admits requests by the first of these doors for which they present a credential, if that one is valid. */
export const RequireAny = (...doors: Doors): Guarding => UseGuards(createGuard(createAnyGuard(doors)));

/** As `RequireAny`, and admits requests without a credential, with `@Principal()` undefined. */
export const OptionalAuth = (...doors: Doors): Guarding => UseGuards(createGuard(createOptionalGuard(doors)));

/** Compiles only where a parameter of the route has the type of the principal. */
export type PrincipalDecorator<Identity> = <
  Controller extends { [Name in Route]: (...parameters: never[]) => unknown },
  Route extends PropertyKey,
>(
  controller: Controller,
  route: Route & (Identity extends Parameters<Controller[Route]>[number] ? unknown : never),
  index: number,
) => void;

const createPrincipalDecorator = createParamDecorator((door: Door | undefined, context: ExecutionContext) =>
  readPrincipal(findRequest(context), door),
);

/**
 * The caller, as a parameter: `@Principal() caller: AppPrincipal`. With two guards on the route, the caller that the
 * last one found.
 */
export function Principal(): ParameterDecorator;
/**
 * The caller at one door, as a parameter: `@Principal('app') caller: AppPrincipal`. Fails to compile where the parameter has
 * another type, and at the first request where no guard of the route is for this door.
 */
export function Principal<D extends Door>(door: D): PrincipalDecorator<PrincipalOf<D>>;
export function Principal(door?: Door): unknown {
  return createPrincipalDecorator(door);
}

function createGuard<D extends Door>(guard: Guard<D, PrincipalOf | AnyUserPrincipal | undefined>): Type<CanActivate> {
  @Injectable()
  class PlatformAuthGuard implements CanActivate {
    constructor(@Inject(VerifierCore) private readonly verifier: VerifierCore) {}

    async canActivate(context: ExecutionContext): Promise<boolean> {
      const request = findRequest(context);
      const presented = isOfFastify(request) ? toPresentedRequest(request) : request;
      const refusal = await admit(guard, this.verifier, presented, request);
      if (!refusal) return true;
      // In GraphQL several resolvers share the response, and the driver writes it.
      if (context.getType() === 'http') setHeaders(context.switchToHttp().getResponse<HttpResponse>(), refusal.headers);
      throw new HttpException(refusal.body, refusal.status);
    }
  }
  return mixin(PlatformAuthGuard);
}

/** A GraphQL resolver gets root, arguments and context. The context has the request as `req`, or below `reply`. */
function findRequest(context: ExecutionContext): IncomingMessage | FastifyRequest {
  if (context.getType() === 'http') return context.switchToHttp().getRequest<IncomingMessage | FastifyRequest>();
  const { req, reply }: GraphqlContext = context.getArgByIndex<GraphqlContext | undefined>(2) ?? {};
  const request = context.getType<string>() === 'graphql' ? (req ?? reply?.request) : undefined;
  if (!request)
    throw new Error('The guards of platform-auth are for HTTP routes, and for GraphQL with `req` in its context');
  return request;
}

function isOfFastify(request: IncomingMessage | FastifyRequest): request is FastifyRequest {
  return 'raw' in request;
}

/**
 * On Express the media type is set after Nest has written the body, because Nest 11 replaces every media type of an
 * error by `application/json`. A filter of the service may respond in another form, which stays.
 */
function setHeaders(response: HttpResponse, headers: Readonly<Record<string, string>>): void {
  const { 'Content-Type': mediaType, ...others } = headers;
  const set = (name: string, value = ''): unknown =>
    response.header ? response.header(name, value) : response.setHeader?.(name, value);
  for (const [name, value] of Object.entries(others)) set(name, value);
  const writeHead = response.writeHead?.bind(response);
  if (!writeHead) {
    set('Content-Type', mediaType);
    return;
  }
  response.writeHead = (...parameters) => {
    if (String(response.getHeader?.('Content-Type')).startsWith('application/json'))
      response.setHeader?.('Content-Type', mediaType ?? '');
    return writeHead(...parameters);
  };
}
