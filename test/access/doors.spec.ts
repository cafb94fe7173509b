import { readdirSync, readFileSync } from 'node:fs';
import { RequestMethod } from '@nestjs/common';
import { METHOD_METADATA, PATH_METADATA } from '@nestjs/common/constants.js';
import { DiscoveryModule, DiscoveryService, MetadataScanner } from '@nestjs/core';
import { Test } from '@nestjs/testing';
import { AppModule } from '../../src/app.module.js';
import { DOORS_OF_ROUTE, SCOPE_OF_ROUTE } from '../../src/access/require.js';
import { parseEnvironment } from '../../src/config/environment.js';
import { createTestDatabase } from '../support/test-database.js';
import { VARIABLES } from '../support/settings.js';
import { fromRoot } from '../support/from-root.js';

/**
 * Which door opens each route, and with which scope of an operator. A route that is missing here, or that declares
 * another door or scope, fails the test.
 */
const POLICY: Readonly<Record<string, string>> = {
  'GET health': 'open',
  'GET health/live': 'open',
  'GET .well-known/jwks.json': 'open',
  'POST api/v0/auth/register': 'open',
  'POST api/v0/auth/login': 'open',
  'POST api/v0/auth/password-reset': 'open',
  'POST api/v0/auth/password-reset/confirm': 'open',
  'POST api/v0/auth/email-verification': 'open',
  'POST api/v0/auth/email-verification/confirm': 'open',
  'POST api/v0/auth/login/second-factor': 'open',
  'POST api/v0/auth/login/passkey/options': 'open',
  'POST api/v0/auth/login/passkey': 'open',
  'POST api/v0/auth/refresh': 'open',
  'POST api/v0/auth/logout': 'open',
  'GET api/v0/users/me': 'user',
  'POST api/v0/users/me/password': 'user',
  'POST api/v0/users/me/delete': 'user',
  'GET api/v0/users/me/sessions': 'user',
  'DELETE api/v0/users/me/sessions': 'user',
  'DELETE api/v0/users/me/sessions/:id': 'user',
  'POST api/v0/users/me/email': 'user',
  'GET api/v0/users/me/totp': 'user',
  'POST api/v0/users/me/totp': 'user',
  'POST api/v0/users/me/totp/confirm': 'user',
  'POST api/v0/users/me/totp/remove': 'user',
  'POST api/v0/users/me/recovery-codes': 'user',
  'POST api/v0/users/me/passkeys/options': 'user',
  'POST api/v0/users/me/passkeys': 'user',
  'GET api/v0/users/me/passkeys': 'user',
  'PATCH api/v0/users/me/passkeys/:id': 'user',
  'POST api/v0/users/me/passkeys/:id/remove': 'user',
  'GET api/v0/users/:id': 'admin with users or app or user',
  'POST internal/validate-app': 'app',
  'POST internal/validate-node': 'node',
  'POST internal/validate-user': 'user',
  'POST internal/changes': 'app',
  'POST internal/introspect': 'app',
  'GET internal/authorize/node': 'node',
  'GET internal/authorize/app': 'app',
  'GET internal/authorize/user': 'user',
  'POST api/v0/admin/nodes': 'admin with nodes',
  'GET api/v0/admin/nodes': 'admin with nodes',
  'GET api/v0/admin/nodes/:node_id': 'admin with nodes',
  'PATCH api/v0/admin/nodes/:node_id': 'admin with nodes',
  'DELETE api/v0/admin/nodes/:node_id': 'admin with nodes',
  'POST api/v0/admin/nodes/:node_id/rotate': 'admin with nodes',
  'GET api/v0/admin/nodes/:node_id/explain': 'admin with nodes',
  'GET api/v0/admin/app-credentials/:app_id/explain': 'admin with apps',
  'POST api/v0/admin/app-credentials': 'admin with apps',
  'GET api/v0/admin/app-credentials': 'admin with apps',
  'GET api/v0/admin/app-credentials/:app_id': 'admin with apps',
  'DELETE api/v0/admin/app-credentials/:app_id': 'admin with apps',
  'POST api/v0/admin/app-credentials/:app_id/rotate': 'admin with apps',
  'POST api/v0/admin/operators': 'admin with operators',
  'GET api/v0/admin/operators': 'admin with operators',
  'GET api/v0/admin/operators/:operator_id': 'admin with operators',
  'PATCH api/v0/admin/operators/:operator_id': 'admin with operators',
  'DELETE api/v0/admin/operators/:operator_id': 'admin with operators',
  'POST api/v0/admin/operators/:operator_id/rotate': 'admin with operators',
  'GET api/v0/admin/audit-events': 'admin with read',
  'POST api/v0/admin/users': 'admin with users',
  'GET api/v0/admin/users': 'admin with users',
  'GET api/v0/admin/users/:id': 'admin with users',
  'PATCH api/v0/admin/users/:id': 'admin with users',
  'DELETE api/v0/admin/users/:id': 'admin with users',
  'GET api/v0/admin/users/:id/explain': 'admin with users',
  'GET api/v0/admin/users/:id/sessions': 'admin with users',
  'DELETE api/v0/admin/users/:id/sessions': 'admin with users',
  'DELETE api/v0/admin/users/:id/factors': 'admin with users',
  'POST api/v0/admin/users/:id/password-reset': 'admin with users',
};

/** Behind a guard that throttles. Open routes have it instead of a door, the others beside their door. */
const THROTTLED = [
  'POST api/v0/auth/register',
  'POST api/v0/auth/refresh',
  'POST api/v0/auth/password-reset',
  'POST api/v0/auth/password-reset/confirm',
  'POST api/v0/auth/email-verification',
  'POST api/v0/auth/email-verification/confirm',
  'POST api/v0/auth/login/second-factor',
  'POST api/v0/auth/login/passkey/options',
  'POST api/v0/auth/login/passkey',
  'PATCH api/v0/users/me/passkeys/:id',
];

/** A service may send its own credential beside the one that it forwards. */
const FORWARDED = ['POST internal/validate-node', 'POST internal/validate-user'];

/** One for each door, one more where a service may forward, and one where calls are throttled. */
function guardsOf(route: string, door: string): number {
  const ofThrottle = THROTTLED.includes(route) ? 1 : 0;
  if (door === 'open') return ofThrottle;
  return (FORWARDED.includes(route) ? 2 : 1) + ofThrottle;
}

const readSource = (file: string): string => readFileSync(fromRoot(`src/${file}`), 'utf8');
const CONTROLLERS = readdirSync(fromRoot('src'), { recursive: true, encoding: 'utf8' }).filter(
  (file) => file.endsWith('.ts') && readSource(file).includes('@Controller('),
);

describe('every route', () => {
  it('declares exactly one door policy, one scope for the admin door, and a guard for each door', async () => {
    const database = await createTestDatabase();
    const environment = parseEnvironment({ ...VARIABLES, DATABASE_URL: database.url });
    const app = await Test.createTestingModule({
      imports: [AppModule.forRoot(environment), DiscoveryModule],
    }).compile();
    const declared: Record<string, string> = {};
    for (const { instance, metatype } of app.get(DiscoveryService).getControllers()) {
      const prototype = Object.getPrototypeOf(instance) as Record<string, object>;
      const base = Reflect.getMetadata(PATH_METADATA, metatype as object) as string;
      for (const name of app.get(MetadataScanner).getAllMethodNames(prototype)) {
        const handler = prototype[name]!;
        const method = Reflect.getMetadata(METHOD_METADATA, handler) as RequestMethod | undefined;
        if (method === undefined) continue;
        const path = Reflect.getMetadata(PATH_METADATA, handler) as string;
        const doors = Reflect.getMetadata(DOORS_OF_ROUTE, handler) as string[] | undefined;
        const route = `${RequestMethod[method]} ${path === '/' ? base : `${base}/${path}`}`;
        const scope = Reflect.getMetadata(SCOPE_OF_ROUTE, handler) as string | undefined;
        const named = doors?.map((door) => (door === 'admin' ? `admin with ${scope ?? 'NO SCOPE'}` : door));
        declared[route] = named === undefined ? 'NOT DECLARED' : named.join(' or ') || 'open';
        if (!doors?.includes('admin')) expect({ route, scope }).toEqual({ route, scope: undefined });
        // The same decorator that declares a door guards it.
        const guards = (Reflect.getMetadata('__guards__', handler) as unknown[] | undefined) ?? [];
        expect({ route, guards: guards.length }).toEqual({ route, guards: guardsOf(route, declared[route]) });
      }
    }
    expect(declared).toEqual(POLICY);
    await app.close();
    await database.drop();
  });

  it('declares its door policy and its scope in one decorator', () => {
    expect(CONTROLLERS.length).toBeGreaterThan(5);
    for (const file of CONTROLLERS) {
      const text = readSource(file);
      const routes = text.match(/^ {2}@(Get|Post|Patch|Put|Delete)\(/gm) ?? [];
      const doors =
        text.match(
          /^ {2}@(Public|Require(User|ForwardedUser|PresentedApp|Node|App|Admin|AdminOr|With)|Authorize)\(/gm,
        ) ?? [];
      expect({ file, routes: routes.length }).toEqual({ file, routes: doors.length });
      expect(routes.length).toBeGreaterThan(0);
    }
  });
});
