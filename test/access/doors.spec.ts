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
 * The operation id of each route, the door that opens it, with which scope of an operator, and whether calls are throttled.
 * A route that is missing here, or that declares something else, fails the test.
 */
const POLICY: Readonly<Record<string, string>> = {
  'GET health': 'checkReadiness: open',
  'GET health/live': 'checkLiveness: open',
  'GET .well-known/jwks.json': 'listSigningKeys: open',
  'POST api/v0/auth/register': 'register: open, throttled',
  'POST api/v0/auth/login': 'login: open',
  'POST api/v0/auth/password-reset': 'requestPasswordReset: open, throttled',
  'POST api/v0/auth/password-reset/confirm': 'confirmPasswordReset: open, throttled',
  'POST api/v0/auth/email-verification': 'requestEmailVerification: open, throttled',
  'POST api/v0/auth/email-verification/confirm': 'confirmEmail: open, throttled',
  'POST api/v0/auth/login/second-factor': 'answerSecondFactor: open, throttled',
  'POST api/v0/auth/login/passkey/options': 'createPasskeyLoginOptions: open, throttled',
  'POST api/v0/auth/login/passkey': 'logInWithPasskey: open, throttled',
  'POST api/v0/auth/refresh': 'refresh: open, throttled',
  'POST api/v0/auth/logout': 'logout: open',
  'GET api/v0/users/me': 'getCurrentUser: user',
  'POST api/v0/users/me/password': 'changePassword: user',
  'POST api/v0/users/me/delete': 'deleteOwnAccount: user',
  'GET api/v0/users/me/sessions': 'listOwnSessions: user',
  'DELETE api/v0/users/me/sessions': 'endOtherSessions: user',
  'DELETE api/v0/users/me/sessions/:id': 'endOwnSession: user',
  'POST api/v0/users/me/email': 'changeEmail: user',
  'GET api/v0/users/me/totp': 'getTotp: user',
  'POST api/v0/users/me/totp': 'enrolTotp: user',
  'POST api/v0/users/me/totp/confirm': 'confirmTotp: user',
  'POST api/v0/users/me/totp/remove': 'removeTotp: user',
  'POST api/v0/users/me/recovery-codes': 'replaceRecoveryCodes: user',
  'POST api/v0/users/me/passkeys/options': 'createPasskeyOptions: user',
  'POST api/v0/users/me/passkeys': 'registerPasskey: user',
  'GET api/v0/users/me/passkeys': 'listPasskeys: user',
  'PATCH api/v0/users/me/passkeys/:id': 'renamePasskey: user, throttled',
  'POST api/v0/users/me/passkeys/:id/remove': 'removePasskey: user',
  'GET api/v0/users/:id': 'getUser: admin with users or app or user',
  'POST internal/validate-app': 'validateApp: app',
  'POST internal/validate-node': 'validateNode: node',
  'POST internal/validate-user': 'validateUser: user',
  'POST internal/changes': 'pollChanges: app',
  'POST internal/introspect': 'introspectToken: app',
  'GET internal/authorize/node': 'authorizeNode: node',
  'GET internal/authorize/app': 'authorizeApp: app',
  'GET internal/authorize/user': 'authorizeUser: user',
  'POST api/v0/admin/nodes': 'registerNode: admin with nodes',
  'GET api/v0/admin/nodes': 'listNodes: admin with nodes',
  'GET api/v0/admin/nodes/:node_id': 'getNode: admin with nodes',
  'PATCH api/v0/admin/nodes/:node_id': 'updateNode: admin with nodes',
  'DELETE api/v0/admin/nodes/:node_id': 'revokeNode: admin with nodes',
  'POST api/v0/admin/nodes/:node_id/rotate': 'rotateNode: admin with nodes',
  'GET api/v0/admin/nodes/:node_id/explain': 'explainNode: admin with nodes',
  'GET api/v0/admin/app-credentials/:app_id/explain': 'explainAppCredential: admin with apps',
  'POST api/v0/admin/app-credentials': 'mintAppCredential: admin with apps',
  'GET api/v0/admin/app-credentials': 'listAppCredentials: admin with apps',
  'GET api/v0/admin/app-credentials/:app_id': 'getAppCredential: admin with apps',
  'DELETE api/v0/admin/app-credentials/:app_id': 'revokeAppCredential: admin with apps',
  'POST api/v0/admin/app-credentials/:app_id/rotate': 'rotateAppCredential: admin with apps',
  'POST api/v0/admin/operators': 'addOperator: admin with operators',
  'GET api/v0/admin/operators': 'listOperators: admin with operators',
  'GET api/v0/admin/operators/:operator_id': 'getOperator: admin with operators',
  'PATCH api/v0/admin/operators/:operator_id': 'updateOperator: admin with operators',
  'DELETE api/v0/admin/operators/:operator_id': 'revokeOperator: admin with operators',
  'POST api/v0/admin/operators/:operator_id/rotate': 'rotateOperator: admin with operators',
  'GET api/v0/admin/audit-events': 'listAuditEvents: admin with read',
  'POST api/v0/admin/users': 'createUser: admin with users',
  'GET api/v0/admin/users': 'listUsers: admin with users',
  'GET api/v0/admin/users/:id': 'getUserAsAdmin: admin with users',
  'PATCH api/v0/admin/users/:id': 'updateUser: admin with users',
  'DELETE api/v0/admin/users/:id': 'deleteUser: admin with users',
  'GET api/v0/admin/users/:id/explain': 'explainUser: admin with users',
  'GET api/v0/admin/users/:id/sessions': 'listUserSessions: admin with users',
  'DELETE api/v0/admin/users/:id/sessions': 'endUserSessions: admin with users',
  'DELETE api/v0/admin/users/:id/factors': 'removeUserFactors: admin with users',
  'POST api/v0/admin/users/:id/password-reset': 'issuePasswordReset: admin with users',
};

/** A service may send its own credential beside the one that it forwards. */
const FORWARDED = ['POST internal/validate-node', 'POST internal/validate-user'];

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
        const door = named === undefined ? 'NOT DECLARED' : named.join(' or ') || 'open';
        if (!doors?.includes('admin')) expect({ route, scope }).toEqual({ route, scope: undefined });
        // The same decorator that declares a door guards it. One more guard throttles.
        const guards = (Reflect.getMetadata('__guards__', handler) as unknown[] | undefined) ?? [];
        const more = guards.length - (door === 'open' ? 0 : FORWARDED.includes(route) ? 2 : 1);
        declared[route] = `${name}: ${door}${['', ', throttled'][more] ?? ` and ${guards.length} guards`}`;
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
