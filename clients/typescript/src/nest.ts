import {
  applyDecorators,
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
import { guard } from './guard.js';
import type { Door, RequestAuth } from './principals.js';
import { Verifier } from './verifier.js';
import { VerifierCore } from './verifier-core.js';

/** The token of the provider: to inject the verifier, or to override it in a test. */
export { VerifierCore };

type GuardedRequest = IncomingMessage & { raw?: IncomingMessage; auth?: RequestAuth };

/** A response of Express or of Fastify. */
interface HeaderTarget {
  setHeader?(name: string, value: string): unknown;
  header?(name: string, value: string): unknown;
}

@Module({})
export class PlatformAuthModule implements OnApplicationShutdown {
  constructor(@Inject(VerifierCore) private readonly verifier: VerifierCore) {}

  /** @param verifier default: from the environment, when the module is created */
  static forRoot(verifier?: VerifierCore): DynamicModule {
    const provider = { provide: VerifierCore, useFactory: () => verifier ?? Verifier.fromEnvironment() };
    return { module: PlatformAuthModule, global: true, providers: [provider], exports: [VerifierCore] };
  }

  onApplicationShutdown(): void {
    this.verifier.close();
  }
}

/** Admits requests with a valid key of another service, for this one. */
export const RequireApp = (): ClassDecorator & MethodDecorator => requireDoor('app');

/** Admits requests with a valid key of a node. */
export const RequireNode = (): ClassDecorator & MethodDecorator => requireDoor('node');

/** Admits requests with a valid access token of a user. */
export const RequireUser = (): ClassDecorator & MethodDecorator => requireDoor('user');

/** The caller, as a parameter: `@Principal() caller: AppPrincipal`. */
export const Principal = createParamDecorator(
  (_data: unknown, context: ExecutionContext) => context.switchToHttp().getRequest<GuardedRequest>().auth,
);

function requireDoor(door: Door): ClassDecorator & MethodDecorator {
  return applyDecorators(UseGuards(createGuard(door)));
}

function createGuard(door: Door): Type<CanActivate> {
  @Injectable()
  class PlatformAuthGuard implements CanActivate {
    constructor(@Inject(VerifierCore) private readonly verifier: VerifierCore) {}

    async canActivate(context: ExecutionContext): Promise<boolean> {
      if (context.getType() !== 'http') throw new Error('The guards of platform-auth are for HTTP routes');
      const http = context.switchToHttp();
      const request = http.getRequest<GuardedRequest>();
      const outcome = await guard(this.verifier, door, request.raw ?? request);
      if ('auth' in outcome) {
        request.auth = outcome.auth;
        return true;
      }
      const { status, headers, body } = outcome.refusal;
      const response = http.getResponse<HeaderTarget>();
      for (const [name, value] of Object.entries(headers))
        (response.header ?? response.setHeader)?.call(response, name, value);
      throw new HttpException(body, status);
    }
  }
  return mixin(PlatformAuthGuard);
}
