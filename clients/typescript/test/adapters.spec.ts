import { Controller, Get, Inject, Module, type INestApplication } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Test } from '@nestjs/testing';
import express from 'express';
import { fastify } from 'fastify';
import { randomUUID } from 'node:crypto';
import { request as httpRequest, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { eventually } from '../../../tools/eventually.js';
import * as expressGuards from '../src/express.js';
import * as fastifyGuards from '../src/fastify.js';
import {
  OptionalAuth,
  PlatformAuthModule,
  Principal,
  RequireAny,
  RequireApp,
  RequireMember,
  RequireNode,
  RequireUser,
  VerifierCore,
} from '../src/nest.js';
import type { AppPrincipal, DelegatedUserPrincipal, NodePrincipal, UserPrincipal } from '../src/principals.js';
import { Verifier } from '../src/verifier.js';

interface Started {
  readonly url: string;
  stop(): Promise<unknown>;
}

type Start = (verifier: VerifierCore) => Promise<Started>;

function toUrl(server: Server): string {
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const startExpress: Start = async (verifier) => {
  const app = express();
  const { requireApp, requireNode, requireUser, requireMember, requireAny, optionalAuth, getPrincipal } = expressGuards;
  app.get('/app', requireApp(verifier), (request, response) => void response.json(getPrincipal(request, 'app')));
  app.get(
    '/node',
    requireNode(verifier).handle((request, response) => response.json(request.auth)),
  );
  app.get(
    '/user',
    requireUser(verifier).handle((request, response) => response.json(request.auth)),
  );
  app.get(
    '/delegated',
    requireUser(verifier, { delegated: true, scope: 'documents:read' }).handle(({ auth }, response) =>
      response.json({ userId: auth.userId, caller: auth.caller, email: auth.caller === null ? auth.email : 'none' }),
    ),
  );
  app.get(
    '/onward',
    requireUser(verifier).handle(async (request, response) =>
      response.json({ token: await verifier.tokenFor(request, 'ocr', { scope: 'documents:read' }) }),
    ),
  );
  app.get(
    '/only',
    requireUser(verifier, { delegated: 'only' }).handle(({ auth }, response) => response.json(auth.scopes)),
  );
  app.get(
    '/documents',
    requireApp(verifier, { scope: 'documents:read' }).handle((request, response) => response.json(request.auth)),
  );
  app.get(
    '/any',
    requireAny(verifier, ['user', 'app']).handle((request, response) => response.json(request.auth)),
  );
  app.get(
    '/optional',
    optionalAuth(verifier, ['user']).handle((request, response) => response.json({ email: request.auth?.email })),
  );
  app.get(
    '/homes/:id',
    requireMember(verifier, { household: (request) => request.params.id }).handle((request, response) =>
      response.json(request.auth),
    ),
  );
  app.get(
    '/homes/:id/nodes',
    requireMember(verifier, { household: (request) => request.params.id, role: 'admin' }),
    (request, response) => void response.json(getPrincipal(request, 'user')),
  );
  app.get(
    '/shared',
    requireNode(verifier),
    requireMember(verifier, { household: (request) => getPrincipal(request, 'node').householdId }),
    (_request, response) => void response.json({}),
  );
  const ofNobody = (): never => {
    throw new Error('of the route');
  };
  app.get('/unclear', requireMember(verifier, { household: ofNobody }), (_request, response) => void response.json({}));
  app.get('/both', requireApp(verifier), requireUser(verifier), (request, response) => {
    response.json([getPrincipal(request, 'app').caller, getPrincipal(request, 'user').email]);
  });
  app.get(
    '/failing',
    requireApp(verifier).handle(() => Promise.reject(new Error('of the handler'))),
  );
  app.get(
    '/without-user',
    requireApp(verifier).handle(() => verifier.tokenFor({ headers: {} }, 'ocr')),
  );
  app.get('/none', (request, response) => void response.json(getPrincipal(request, 'app')));
  const toAnswer: express.ErrorRequestHandler = (error: Error & { status?: number }, _request, response, next) => {
    if (response.headersSent) next(error);
    else response.status(error.status ?? 500).json({ error: error.message });
  };
  app.use(toAnswer);
  const server = await new Promise<Server>((resolve) => {
    const started = app.listen(0, '127.0.0.1', () => resolve(started));
  });
  return { url: toUrl(server), stop: () => new Promise((resolve) => server.close(resolve)) };
};

const startFastify: Start = async (verifier) => {
  const app = fastify();
  const { requireApp, requireNode, requireUser, requireMember, requireAny, optionalAuth, getPrincipal } = fastifyGuards;
  app.get('/app', { onRequest: requireApp(verifier) }, (request, reply) => reply.send(request.auth));
  app.get('/node', { onRequest: requireNode(verifier) }, (request, reply) => reply.send(request.auth));
  app.get('/user', { onRequest: requireUser(verifier) }, (request, reply) => reply.send(request.auth));
  const delegated = requireUser(verifier, { delegated: true, scope: 'documents:read' });
  app.get('/delegated', { onRequest: delegated }, ({ auth }, reply) => {
    if (auth?.door !== 'user') throw new Error('no user');
    return reply.send({ userId: auth.userId, caller: auth.caller, email: auth.caller === null ? auth.email : 'none' });
  });
  app.get('/documents', { onRequest: requireApp(verifier, { scope: 'documents:read' }) }, (request, reply) =>
    reply.send(request.auth),
  );
  app.get('/any', { onRequest: requireAny(verifier, ['user', 'app']) }, (request, reply) => reply.send(request.auth));
  app.get('/optional', { onRequest: optionalAuth(verifier, ['user']) }, (request, reply) =>
    reply.send({ email: fastifyGuards.findPrincipal(request, 'user')?.email }),
  );
  const household = (request: { readonly params: Readonly<Record<string, string | undefined>> }) => request.params.id;
  app.get('/homes/:id', { onRequest: requireMember(verifier, { household }) }, (request, reply) =>
    reply.send(request.auth),
  );
  app.get('/homes/:id/nodes', { onRequest: requireMember(verifier, { household, role: 'admin' }) }, (request, reply) =>
    reply.send(getPrincipal(request, 'user')),
  );
  app.get('/both', { onRequest: [requireApp(verifier), requireUser(verifier)] }, (request, reply) =>
    reply.send([getPrincipal(request, 'app').caller, getPrincipal(request, 'user').email]),
  );
  app.get('/without-user', { onRequest: requireApp(verifier) }, () => verifier.tokenFor({ headers: {} }, 'ocr'));
  return { url: await app.listen({ port: 0, host: '127.0.0.1' }), stop: () => app.close() };
};

@Controller()
class CallersController {
  constructor(@Inject(VerifierCore) private readonly verifier: VerifierCore) {}

  @Get('without-user')
  @RequireApp()
  getTokenWithoutUser(): Promise<string> {
    return this.verifier.tokenFor({ headers: {} }, 'ocr');
  }

  @Get('app')
  @RequireApp()
  getApp(@Principal() caller: AppPrincipal): AppPrincipal {
    return caller;
  }

  @Get('node')
  @RequireNode()
  getNode(@Principal('node') node: NodePrincipal): NodePrincipal {
    return node;
  }

  @Get('delegated')
  @RequireUser({ delegated: true, scope: 'documents:read' })
  getDelegated(@Principal() user: UserPrincipal | DelegatedUserPrincipal) {
    return { userId: user.userId, caller: user.caller, email: user.caller === null ? user.email : 'none' };
  }

  @Get('documents')
  @RequireApp({ scope: 'documents:read' })
  getDocuments(@Principal('app') caller: AppPrincipal): AppPrincipal {
    return caller;
  }

  @Get('any')
  @RequireAny('user', 'app')
  getAny(@Principal() caller: AppPrincipal | UserPrincipal): AppPrincipal | UserPrincipal {
    return caller;
  }

  @Get('optional')
  @OptionalAuth('user')
  getOptional(@Principal('user') user: UserPrincipal | undefined) {
    return { email: user?.email };
  }

  @Get('homes/:id')
  @RequireMember({ household: (request) => request.params.id })
  getHome(@Principal('user') user: UserPrincipal): UserPrincipal {
    return user;
  }

  @Get('homes/:id/nodes')
  @RequireMember({ household: (request) => request.params.id, role: 'admin' })
  getNodes(@Principal('user') user: UserPrincipal): UserPrincipal {
    return user;
  }

  @Get('both')
  @RequireApp()
  @RequireUser()
  getBoth(@Principal('app') app: AppPrincipal, @Principal('user') user: UserPrincipal): string[] {
    return [app.caller, user.email];
  }

  @Get('mistake')
  @RequireUser()
  // @ts-expect-error the parameter has another type
  getMistake(@Principal('app') caller: UserPrincipal): UserPrincipal {
    return caller;
  }

  @Get('user')
  @RequireUser()
  getUser(@Principal() user: UserPrincipal): UserPrincipal {
    return user;
  }
}

const startNest: Start = async (verifier) => {
  @Module({ imports: [PlatformAuthModule.forRoot(verifier)], controllers: [CallersController] })
  class AppModule {}
  const app: INestApplication = await NestFactory.create(AppModule, { logger: false });
  await app.listen(0, '127.0.0.1');
  return { url: toUrl(app.getHttpServer() as Server), stop: () => app.close() };
};

/** Sends headers unchanged: `fetch` joins repeated headers, and refuses some values. */
function get(url: string, headers: readonly string[]) {
  return new Promise<{ status: number; headers: NodeJS.Dict<string | string[]>; body: Record<string, unknown> }>(
    (resolve, reject) => {
      const call = httpRequest(url, { headers: ['Host', 'service.test', ...headers] }, (response) => {
        let text = '';
        response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
        response.on('end', () =>
          resolve({ status: response.statusCode ?? 0, headers: response.headers, body: JSON.parse(text || '{}') }),
        );
      });
      call.on('error', reject).end();
    },
  );
}

describe('the guards of Fastify', () => {
  it('do not run the route of a refused request whose client left while a hook waited', async () => {
    const auth = Verifier.forTests({ serviceName: 'recipes' });
    const app = fastify();
    let [isRouteCalled, isClosed] = [false, false];
    app.addHook('onSend', async (request) => {
      request.raw.socket.destroy();
      await eventually('the connection is closed', () => isClosed);
    });
    app.get('/app', { onRequest: fastifyGuards.requireApp(auth) }, (_request, reply) => {
      isRouteCalled = true;
      return reply.send({});
    });
    app.server.on('connection', (socket) => socket.on('close', () => setImmediate(() => (isClosed = true))));
    const url = await app.listen({ port: 0, host: '127.0.0.1' });
    await expect(get(`${url}/app`, [])).rejects.toThrow();
    await app.close();
    auth.close();
    expect(isRouteCalled).toBe(false);
  });
});

describe('the guards of Express, in detail', () => {
  const auth = Verifier.forTests();
  const { headers } = auth.issueApp();
  let service: Started;

  beforeAll(async () => {
    service = await startExpress(auth);
  });

  afterAll(async () => {
    await service.stop();
    auth.close();
  });

  it('hand what a handler throws to the error handlers of the service', async () => {
    const { status, body } = await get(`${service.url}/failing`, Object.entries(headers).flat());
    expect([status, body]).toEqual([500, { error: 'of the handler' }]);
  });

  it('say that no guard has run where a route asks for its caller without one', async () => {
    const { body } = await get(`${service.url}/none`, Object.entries(headers).flat());
    expect(body.error).toMatch(/^No guard of this route/);
  });

  it('compare the household of a node with those of a user who sends its key, where the route asks for it', async () => {
    const [node, foreign] = [auth.issueNode(), auth.issueNode()];
    const alice = auth.issueUser({ households: [{ id: node.principal.householdId, role: 'member' }] });
    const askWith = (device: typeof node) =>
      get(`${service.url}/shared`, Object.entries({ ...device.headers, ...alice.headers }).flat());
    expect((await askWith(node)).status).toBe(200);
    expect((await askWith(foreign)).status).toBe(404);
  });

  it('answer 503 when the household of a request cannot be told, and 401 before it is looked up', async () => {
    const user = Object.entries(auth.issueUser().headers).flat();
    expect((await get(`${service.url}/unclear`, user)).status).toBe(503);
    expect((await get(`${service.url}/unclear`, [])).status).toBe(401);
  });

  it.each([[{}], [{ household: 'home' }], [{ household: () => 'home', role: 'member' }]])(
    'refuse to start with the household %j',
    (route) => {
      expect(() => expressGuards.requireMember(auth, route as never)).toThrow('Name the household of a request');
    },
  );

  it('get a token for another service, with the chain of a delegated one', async () => {
    const { principal, headers: own } = auth.issueUser();
    const { body } = await get(`${service.url}/onward`, Object.entries(own).flat());
    const claims = JSON.parse(Buffer.from(String(body.token).split('.')[1]!, 'base64url').toString()) as object;
    expect(claims).toMatchObject({ sub: principal.userId, aud: 'ocr', scope: 'documents:read' });
    const delegated = auth.issueDelegated({ caller: 'meals', user: principal });
    await expect(auth.tokenFor(delegated, 'ocr')).resolves.toContain('.');
    auth.revoke(delegated);
    await expect(auth.tokenFor(delegated, 'ocr')).rejects.toMatchObject({ status: 401, code: 'invalid_access_token' });
    auth.setAvailable(false);
    await expect(auth.tokenFor({ headers: own }, 'ocr')).rejects.toMatchObject({ status: 503 });
    auth.setAvailable(true);
  });

  it('accept delegated tokens alone where the route says so, and take none for the user', async () => {
    const user = auth.issueUser();
    const delegated = auth.issueDelegated({ scopes: ['a'], user: user.principal });
    const askOnly = (headers: object) => get(`${service.url}/only`, Object.entries(headers).flat() as string[]);
    expect((await askOnly(delegated.headers)).body).toEqual(['a']);
    expect(await askOnly(user.headers)).toMatchObject({ status: 403, body: { code: 'delegation_required' } });
    expect(expressGuards.findPrincipal({}, 'delegated')).toBeUndefined();
  });

  it.each([[{ delegated: 'yes' }], [{ scope: 'read' }], [{ delegated: true, scope: ['read'] }]])(
    'refuse to start with the demands %j',
    (demands) => {
      expect(() => expressGuards.requireUser(auth, demands as never)).toThrow('Let a route accept delegated tokens');
    },
  );

  it.each([[[]], [['admin']], [undefined]])('refuse to start with the doors %j', (doors) => {
    expect(() => expressGuards.requireAny(auth, doors as never)).toThrow('Name one or more of app, node, user');
  });
});

describe('a NestJS service under test', () => {
  @Module({ imports: [PlatformAuthModule.forRoot()], controllers: [CallersController] })
  class AppModule {}

  it('has the verifier of the test in place of the one from the environment', async () => {
    const auth = Verifier.forTests({ serviceName: 'recipes' });
    const builder = Test.createTestingModule({ imports: [AppModule] });
    const logged: unknown[] = [];
    const note = (message: unknown): void => void logged.push(message);
    const logger = { log: () => undefined, warn: note, error: note };
    const module = await builder.overrideProvider(VerifierCore).useValue(auth).compile();
    const app = module.createNestApplication({ logger });
    await app.listen(0, '127.0.0.1');
    const node = auth.issueNode();
    const ask = (path: string, headers: Readonly<Record<string, string>> = {}) =>
      get(`${toUrl(app.getHttpServer() as Server)}/${path}`, Object.entries(headers).flat());
    const answer = await ask('node', node.headers);
    expect([answer.status, answer.body]).toEqual([200, node.principal]);
    const refusal = await ask('node');
    expect([refusal.status, refusal.headers['content-type']]).toEqual([401, 'application/problem+json']);
    expect(logged).toEqual([]);
    expect((await ask('mistake', auth.issueUser().headers)).status).toBe(500);
    expect(app.get(VerifierCore)).toBe(auth);
    await app.close();
  });
});

describe.each<[string, Start]>([
  ['Express', startExpress],
  ['Fastify', startFastify],
  ['NestJS', startNest],
])('the guards of %s', (_name, start) => {
  const auth = Verifier.forTests({ serviceName: 'recipes' });
  const issued = { app: auth.issueApp({ caller: 'meals' }), node: auth.issueNode(), user: auth.issueUser() };
  let service: Started;

  beforeAll(async () => {
    service = await start(auth);
  });

  afterAll(async () => {
    await service.stop();
    auth.close();
  });

  const doors = ['app', 'node', 'user'] as const;
  const ask = (door: string, headers: Readonly<Record<string, string>>) =>
    get(`${service.url}/${door}`, Object.entries(headers).flat());

  it('answer what a route throws that asks for a token for another service', async () => {
    expect((await ask('without-user', issued.app.headers)).status).toBe(401);
  });

  it.each(doors)('hand the principal of the %s door to the route', async (door) => {
    const { status, body } = await ask(door, issued[door].headers);
    expect([status, body]).toEqual([200, issued[door].principal]);
  });

  it.each([
    ['app', 'invalid_app_credentials', 'PlatformApp'],
    ['node', 'invalid_node_credentials', 'NodeKey'],
    ['user', 'missing_access_token', 'Bearer'],
  ])('answer 401 as a problem without a credential: %s', async (door, code, scheme) => {
    const { status, headers, body } = await ask(door, {});
    expect([status, body.code, body.status]).toEqual([401, code, 401]);
    expect(headers['content-type']).toContain('application/problem+json');
    expect(headers['www-authenticate']).toContain(scheme);
  });

  it('admit a service on behalf of a user only where the route says so', async () => {
    const alice = auth.issueUser();
    const reader = auth.issueDelegated({ caller: 'meals', scopes: ['documents:read'], user: alice.principal });
    const writer = auth.issueDelegated({ caller: 'meals', scopes: ['documents:write'] });
    const ask = (path: string, { headers }: { headers: Readonly<Record<string, string>> }) =>
      get(`${service.url}${path}`, Object.entries(headers).flat());
    const { userId, email } = alice.principal;
    expect((await ask('/delegated', reader)).body).toEqual({ userId, caller: 'meals', email: 'none' });
    expect((await ask('/delegated', alice)).body).toEqual({ userId, caller: null, email });
    expect(await ask('/delegated', writer)).toMatchObject({ status: 403, body: { code: 'missing_scope' } });
    expect(await ask('/user', reader)).toMatchObject({ status: 403, body: { code: 'delegation_not_accepted' } });
    expect(await ask('/any', reader)).toMatchObject({ status: 403, body: { code: 'delegation_not_accepted' } });
    auth.revoke(reader);
    expect((await ask('/delegated', reader)).status).toBe(401);
  });

  it('answer 403 that names the scope to a valid key without it, and let unrestricted keys pass', async () => {
    const read = auth.issueApp({ scopes: ['documents:read', 'jobs:run'] });
    const { status, headers, body } = await ask('documents', auth.issueApp({ scopes: ['jobs:run'] }).headers);
    expect([status, body.code, body.scopes]).toEqual([403, 'missing_scope', ['documents:read']]);
    expect(headers['content-type']).toContain('application/problem+json');
    expect((await ask('documents', auth.issueApp({ scopes: [] }).headers)).status).toBe(403);
    expect((await ask('documents', read.headers)).body).toEqual(read.principal);
    expect((await ask('documents', issued.app.headers)).status).toBe(200);
    expect((await ask('app', read.headers)).body).toEqual(read.principal);
  });

  it('admit members of the household alone, and to what needs the role its admins alone', async () => {
    const [home, other] = [randomUUID(), randomUUID()];
    const households = [
      { id: home, role: 'admin' },
      { id: other.toUpperCase(), role: 'member' },
    ] as const;
    const alice = auth.issueUser({ households });
    const askAbout = async (path: string, headers = alice.headers) => {
      const answered = await ask(`homes/${path}`, headers);
      return [answered.status, answered.body.code];
    };
    expect((await ask(`homes/${home}`, alice.headers)).body).toEqual(alice.principal);
    expect((await ask(`homes/${home}/nodes`, alice.headers)).body).toEqual(alice.principal);
    expect((await ask(`homes/${other}`, alice.headers)).status).toBe(200);
    expect(await askAbout(`${other}/nodes`)).toEqual([403, 'missing_role']);
    for (const id of [randomUUID(), home.toUpperCase(), 'home']) {
      expect(await askAbout(id)).toEqual([404, 'not_found']);
      expect(await askAbout(`${id}/nodes`)).toEqual([404, 'not_found']);
    }
    expect(await askAbout(home, auth.issueUser().headers)).toEqual([404, 'not_found']);
    expect(await askAbout(home, {})).toEqual([401, 'missing_access_token']);
    const { headers } = await ask(`homes/${randomUUID()}`, alice.headers);
    expect(headers['content-type']).toContain('application/problem+json');
    auth.setHouseholds(alice, [{ id: home, role: 'member' }]);
    expect(await askAbout(`${home}/nodes`)).toEqual([403, 'missing_role']);
    auth.setHouseholds(alice, []);
    expect(await askAbout(home)).toEqual([404, 'not_found']);
    expect((await ask('user', alice.headers)).status).toBe(200);
  });

  it('take the credential of any door that the route names, and refuse none with the challenges of all', async () => {
    expect((await ask('any', issued.app.headers)).body).toEqual(issued.app.principal);
    expect((await ask('any', { ...issued.app.headers, ...issued.user.headers })).body).toEqual(issued.user.principal);
    expect((await ask('any', { ...issued.app.headers, Authorization: 'Bearer bad' })).status).toBe(401);
    expect((await ask('any', { ...issued.app.headers, Authorization: 'Basic YTpi' })).status).toBe(200);
    const { status, headers, body } = await ask('any', issued.node.headers);
    expect([status, body.code]).toEqual([401, 'missing_access_token']);
    expect(headers['www-authenticate']).toMatch(/^Bearer .*, PlatformApp /);
  });

  it('let a request without a credential pass where it is optional, and refuse a bad one', async () => {
    const { email } = issued.user.principal;
    expect((await ask('optional', issued.user.headers)).body).toEqual({ email });
    expect([(await ask('optional', {})).status, (await ask('optional', {})).body]).toEqual([200, {}]);
    expect((await ask('optional', { Authorization: 'Bearer bad' })).status).toBe(401);
  });

  it('keep both callers of a route with two guards', async () => {
    const { body } = await ask('both', { ...issued.app.headers, ...issued.user.headers });
    expect(body).toEqual([issued.app.principal.caller, issued.user.principal.email]);
  });

  it('name the request of the caller in a refusal, unless its id looks like a secret', async () => {
    const of = async (id: string) => (await ask('app', { 'X-Request-Id': id })).body.request_id;
    expect(await of('order-4711')).toBe('order-4711');
    expect(await of('pa_app_of-somebody')).toMatch(/^[0-9a-f-]{36}$/);
  });

  it('answer 401 to a revoked credential', async () => {
    const node = auth.issueNode();
    expect((await ask('node', node.headers)).status).toBe(200);
    auth.revoke(node);
    expect((await ask('node', node.headers)).body.code).toBe('invalid_node_credentials');
  });

  it('answer 401 to a key for another target', async () => {
    const { headers } = auth.issueApp({ target: 'ocr' });
    expect((await ask('app', headers)).body.code).toBe('invalid_app_credentials');
  });

  it('answer 400 to a credential header that arrives twice', async () => {
    const { status, body } = await get(`${service.url}/node`, ['X-API-Key', 'a:b', 'x-api-key', 'c:d']);
    expect([status, body.code]).toEqual([400, 'duplicate_header']);
  });

  it.each([
    ['an empty header', ''],
    ['another scheme', 'Basic YTpi'],
    ['no token', 'Bearer'],
    ['bytes that are not ASCII', 'Bearer \xff\xfe'],
    ['10 KB', `Bearer ${'a'.repeat(10_000)}`],
    ['dots', 'Bearer ..'],
    ['a JSON Web Encryption', 'Bearer a.b.c.d.e'],
    ['a null header', `Bearer ${Buffer.from('null').toString('base64url')}.e30.x`],
    ['a null payload', 'Bearer eyJhbGciOiJIUzI1NiJ9.bnVsbA.x'],
  ])('answer 401, never 500, to an Authorization header with %s', async (_what, value) => {
    expect((await ask('user', { Authorization: value })).status).toBe(401);
  });

  it('answer 503 with Retry-After while the authentication service cannot be asked', async () => {
    auth.setAvailable(false);
    const { status, headers, body } = await ask('app', issued.app.headers);
    auth.setAvailable(true);
    expect([status, body.code]).toEqual([503, 'unavailable']);
    expect(Number(headers['retry-after'])).toBeGreaterThan(0);
    expect((await ask('app', issued.app.headers)).status).toBe(200);
  });
});
