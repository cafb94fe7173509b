import { randomUUID } from 'node:crypto';
import { METHOD_METADATA, PATH_METADATA } from '@nestjs/common/constants.js';
import { RequestMethod, type Type } from '@nestjs/common';
import { MetadataScanner, ModulesContainer } from '@nestjs/core';
import type { OpenAPIObject } from '@nestjs/swagger';
import { DOORS_OF_ROUTE } from '../../src/access/require.js';
import { type Problem, problems } from '../../src/problems/problems.js';
import { expectProblem } from '../support/expect-problem.js';
import { ADMIN_KEY } from '../support/settings.js';
import type { TestApp } from '../support/test-app.js';
import { useApp } from '../support/use-app.js';

type Door = 'user' | 'app' | 'node' | 'admin';
interface Route {
  readonly method: 'get' | 'post' | 'patch' | 'delete';
  readonly template: string;
  readonly doors: Door[];
}

const SECURITY: Readonly<Record<Door, object[]>> = {
  user: [{ user: [] }],
  app: [{ app_id: [], app_key: [] }],
  node: [{ node: [] }, { node: [], app_id: [], app_key: [] }],
  admin: [{ admin: [] }],
};
const WITHOUT_CREDENTIAL: Readonly<Record<Door, Problem>> = {
  user: problems.missingAccessToken,
  app: problems.invalidAppCredentials,
  node: problems.invalidNodeCredentials,
  admin: problems.invalidAdminKey,
};

/** Every route of every controller that Nest knows, with the doors it declares. */
function routesOf(app: TestApp): Route[] {
  const scanner = new MetadataScanner();
  const modules = [...app.nest.get(ModulesContainer).values()];
  return modules.flatMap((module) =>
    [...module.controllers.values()].flatMap(({ metatype }) => {
      const { prototype } = metatype as Type<Record<string, object>>;
      const base = Reflect.getMetadata(PATH_METADATA, metatype as object) as string;
      return scanner.getAllMethodNames(prototype).flatMap((name): Route[] => {
        const handler = prototype[name]!;
        const verb = Reflect.getMetadata(METHOD_METADATA, handler) as RequestMethod | undefined;
        if (verb === undefined) return [];
        const path = `/${base}/${Reflect.getMetadata(PATH_METADATA, handler) as string}`.replace(/\/+$/, '');
        const doors = Reflect.getMetadata(DOORS_OF_ROUTE, handler) as Door[];
        const method = RequestMethod[verb].toLowerCase() as Route['method'];
        return [{ method, template: path.replace(/:(\w+)/g, '{$1}'), doors }];
      });
    }),
  );
}

describe('every route of every controller', () => {
  const app = useApp();
  let routes: Route[];
  let document: OpenAPIObject;
  let credentials: Record<Door, Record<string, string>>;

  beforeAll(async () => {
    routes = routesOf(app);
    document = (await app.get('/docs-json').expect(200)).body as OpenAPIObject;
    const [node, service, user] = [await app.node(), await app.service(undefined, 'auth'), await app.user()];
    credentials = {
      user: { Authorization: `Bearer ${(await user.logsIn()).access_token}` },
      app: service.headers,
      node: { 'X-API-Key': node.header },
      admin: { 'X-Admin-Key': ADMIN_KEY },
    };
  });

  const call = ({ method, template }: Route, headers: Record<string, string> = {}) => {
    const path = template.replace(/\{\w+\}/g, randomUUID());
    const request = method === 'get' || method === 'delete' ? app[method](path) : app[method](path, {});
    if (template === '/internal/introspect') return app.post(path).type('form').send('token=t').set(headers);
    // Without it, the answer is not a verdict.
    if (template === '/internal/authorize/app') request.set('X-Platform-Target', 'auth');
    return request.set(headers);
  };
  const guarded = (): Route[] => {
    const found = routes.filter(({ doors }) => doors.length > 0);
    expect(found.length).toBeGreaterThan(20);
    return found;
  };

  it('is documented in OpenAPI, and no other route is', () => {
    const documented = Object.entries(document.paths).flatMap(([path, item]) =>
      Object.keys(item).map((method) => `${method} ${path}`),
    );
    expect(documented.sort()).toEqual(routes.map(({ method, template }) => `${method} ${template}`).sort());
  });

  it('is served by the router, which serves nothing else but the documentation and the page that leads to it', () => {
    const express = app.nest.getHttpAdapter().getInstance();
    const served = express.router.stack.flatMap(({ route }) => (route ? [route.path.replace(/:(\w+)/g, '{$1}')] : []));
    const known = new Set(routes.map(({ template }) => template));
    expect(served.length).toBeGreaterThanOrEqual(routes.length);
    expect(served.filter((path) => !known.has(path) && path !== '/' && !path.startsWith('/docs'))).toEqual([]);
  });

  it('documents the security schemes of its doors', () => {
    const sorted = (list: object[] | undefined) => list?.map((one) => JSON.stringify(one)).sort();
    const expectedOf = ({ template, doors }: Route): object[] => {
      // Logout accepts a bearer token, or none.
      if (template === '/api/v0/auth/logout') return [{ user: [] }, {}];
      if (template === '/internal/validate-user') return [{ user: [] }, { user: [], app_id: [], app_key: [] }];
      if (template === '/internal/authorize/node') return [{ node: [] }];
      return doors.flatMap((door) => SECURITY[door]);
    };
    const documented = routes.map((route) => ({
      route,
      security: sorted(document.paths[route.template]![route.method]!.security),
    }));
    expect(documented).toEqual(routes.map((route) => ({ route, security: sorted(expectedOf(route)) })));
  });

  it('with a door answers 401 without a credential', async () => {
    for (const route of guarded()) {
      const [door, ...others] = route.doors;
      expectProblem(await call(route), others.length > 0 ? problems.unauthenticated : WITHOUT_CREDENTIAL[door!]);
    }
  });

  it('with a door answers 401 to the credential of another door', async () => {
    const accepted: object[] = [];
    for (const route of guarded()) {
      for (const door of (Object.keys(credentials) as Door[]).filter((each) => !route.doors.includes(each))) {
        const { status } = await call(route, credentials[door]);
        if (status !== 401) accepted.push({ ...route, door, status });
      }
    }
    expect(accepted).toEqual([]);
  });

  it('with a door accepts the credential of that door', async () => {
    const refused: object[] = [];
    for (const route of guarded()) {
      for (const door of route.doors) {
        const { status } = await call(route, credentials[door]);
        if (status === 401) refused.push({ ...route, door });
      }
    }
    expect(refused).toEqual([]);
  });

  it('answers 401 when one of two credentials is wrong', async () => {
    const route = routes.find(({ template }) => template === '/api/v0/users/{id}')!;
    const bad = { 'X-Admin-Key': 'x'.repeat(40), ...credentials.app };
    expectProblem(await call(route, bad), problems.invalidAdminKey);
  });
});
