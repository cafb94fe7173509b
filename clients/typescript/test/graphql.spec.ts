import { HttpException, Injectable, Module, type INestApplicationContext } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ExternalContextCreator } from '@nestjs/core/helpers/external-context-creator.js';
import { PlatformAuthModule, Principal, RequireUser } from '../src/nest.js';
import type { UserPrincipal } from '../src/principals.js';
import { Verifier } from '../src/verifier.js';

@Injectable()
class RecipesResolver {
  @RequireUser()
  readEmail(@Principal('user') user: UserPrincipal): string {
    return user.email;
  }
}

describe('a guard on a resolver, called as @nestjs/graphql calls it', () => {
  const auth = Verifier.forTests();
  const alice = auth.issueUser({ email: 'alice@example.org' });
  let app: INestApplicationContext;
  let resolve: (...parameters: unknown[]) => Promise<unknown>;

  @Module({ imports: [PlatformAuthModule.forRoot(auth)], providers: [RecipesResolver] })
  class AppModule {}

  beforeAll(async () => {
    app = await NestFactory.createApplicationContext(AppModule, { logger: false });
    const resolver = app.get(RecipesResolver);
    const { readEmail } = resolver as unknown as Record<'readEmail', (...parameters: unknown[]) => unknown>;
    const noArguments = { exchangeKeyForValue: () => undefined };
    const names = ['readEmail', '__routeArguments__'] as const;
    const contexts = app.get(ExternalContextCreator);
    resolve = contexts.create(resolver, readEmail, ...names, noArguments, undefined, undefined, undefined, 'graphql');
  });

  afterAll(() => app.close());

  it.each([
    ['Apollo', (request: object) => ({ req: request })],
    [
      'Mercurius',
      (request: object) => ({ reply: { request: { raw: { ...request, rawHeaders: [] }, ip: '192.0.2.1' } } }),
    ],
  ])('hands the user to the resolver with the driver %s', async (_driver, createContext) => {
    const context = createContext({ headers: alice.headers });
    expect(await resolve(undefined, {}, context, {})).toBe('alice@example.org');
  });

  it('refuses with the problem document of 401 and 503', async () => {
    const refusal: unknown = await resolve(undefined, {}, { req: { headers: {} } }, {}).catch(
      (error: unknown) => error,
    );
    expect(refusal).toBeInstanceOf(HttpException);
    expect((refusal as HttpException).getResponse()).toMatchObject({ status: 401, code: 'missing_access_token' });
    auth.setAvailable(false);
    const context = { req: { headers: alice.headers } };
    await expect(resolve(undefined, {}, context, {})).rejects.toMatchObject({ status: 503 });
    auth.setAvailable(true);
  });

  it('says what is missing when the context has no request', async () => {
    await expect(resolve(undefined, {}, {}, {})).rejects.toThrow('for GraphQL with `req` in its context');
  });
});
