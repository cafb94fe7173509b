import { readdirSync, readFileSync } from 'node:fs';
import { randomUUID } from 'node:crypto';
import { Get } from '@nestjs/common';
import type { ModulesContainer } from '@nestjs/core';
import type { OpenAPIObject } from '@nestjs/swagger';
import { RouteTable, type Route } from '../../../src/foundation/access/route-table.js';
import { ADMIN_KEY } from '../../support/settings.js';
import { fromRoot } from '../../support/from-root.js';
import { type Problem, problems } from '../../../src/foundation/problems/problems.js';
import { expectProblem } from '../../support/expect-problem.js';
import type { TestApp } from '../../support/test-app.js';
import { useApp } from '../../support/use-app.js';

/**
 * The operation id of each route, the door that opens it, with which scope of an operator, and whether calls are throttled.
 * A route that is missing here, or that declares something else, fails the test.
 */
const FORMS = ['/internal/introspect', '/internal/token'];
const POLICY: Readonly<Record<string, string>> = {
  'GET health': 'checkReadiness: open',
  'GET health/ready': 'checkCacheReadiness: open',
  'GET health/live': 'checkLiveness: open',
  'GET .well-known/jwks.json': 'listSigningKeys: open',
  'POST api/v0/auth/register': 'register: open, throttled',
  'POST api/v0/auth/login': 'login: open',
  'POST api/v0/auth/password-reset': 'requestPasswordReset: open, throttled',
  'POST api/v0/auth/password-reset/confirm': 'confirmPasswordReset: open, throttled',
  'POST api/v0/auth/email-verification': 'requestEmailVerification: open, throttled',
  'POST api/v0/auth/email-verification/confirm': 'confirmEmail: open, throttled',
  'POST api/v0/auth/login/second-factor': 'answerSecondFactor: open, throttled',
  'POST api/v0/auth/login/enrolment/totp': 'enrolTotpAtLogin: open, throttled',
  'POST api/v0/auth/login/enrolment/totp/confirm': 'confirmTotpAtLogin: open, throttled',
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
  'POST api/v0/nodes/enrol': 'enrolNode: open',
  'POST api/v0/nodes/me/rotate': 'rotateOwnKey: node',
  'POST api/v0/households': 'createHousehold: user',
  'GET api/v0/households': 'listOwnHouseholds: user',
  'GET api/v0/households/:id': 'getOwnHousehold: user',
  'PATCH api/v0/households/:id': 'renameOwnHousehold: user',
  'DELETE api/v0/households/:id': 'deleteOwnHousehold: user',
  'GET api/v0/households/:id/members': 'listMembers: user',
  'PATCH api/v0/households/:id/members/:user_id': 'changeRole: user',
  'DELETE api/v0/households/:id/members/:user_id': 'removeMember: user',
  'POST api/v0/households/:id/invitations': 'issueInvitation: user',
  'GET api/v0/households/:id/invitations': 'listInvitations: user',
  'DELETE api/v0/households/:id/invitations/:invitation_id': 'cancelInvitation: user',
  'POST api/v0/invitations/accept': 'acceptInvitation: user',
  'GET api/v0/households/:id/nodes': 'listHouseholdNodes: user',
  'POST api/v0/households/:id/enrolments': 'issueHouseholdEnrolment: user',
  'DELETE api/v0/households/:id/nodes/:node_id': 'revokeHouseholdNode: user',
  'GET internal/households/:id/members': 'listMembersOfHousehold: app',
  'POST internal/users/lookup': 'lookUpUsers: app',
  'POST internal/events': 'readEvents: app',
  'GET api/v0/admin/event-subscriptions': 'listEventSubscriptions: admin with apps',
  'POST api/v0/admin/event-subscriptions/reset': 'resetEventSubscriptions: admin with apps',
  'GET api/v0/admin/event-subscriptions/:service': 'getEventSubscription: admin with apps',
  'GET api/v0/admin/event-subscriptions/:service/events': 'listUnreadEvents: admin with apps',
  'PUT api/v0/admin/event-subscriptions/:service': 'setEventSubscription: admin with apps',
  'DELETE api/v0/admin/event-subscriptions/:service': 'removeEventSubscription: admin with apps',
  'POST api/v0/admin/event-subscriptions/:service/rewind': 'rewindEvents: admin with apps',
  'POST api/v0/admin/event-subscriptions/:service/skip': 'skipEvents: admin with apps',
  'GET api/v0/admin/households': 'listHouseholds: admin with nodes',
  'GET api/v0/admin/households/:household_id': 'getHousehold: admin with nodes',
  'PATCH api/v0/admin/households/:household_id': 'renameHousehold: admin with nodes',
  'DELETE api/v0/admin/households/:household_id': 'deleteHousehold: admin with nodes',
  'GET api/v0/admin/households/:household_id/members': 'listHouseholdMembers: admin with nodes',
  'POST api/v0/admin/households/:household_id/members': 'addHouseholdMember: admin with nodes',
  'PATCH api/v0/admin/households/:household_id/members/:user_id': 'changeHouseholdMember: admin with nodes',
  'DELETE api/v0/admin/households/:household_id/members/:user_id': 'removeHouseholdMember: admin with nodes',
  'GET api/v0/admin/invitations': 'listAllInvitations: admin with nodes',
  'DELETE api/v0/admin/invitations/:invitation_id': 'cancelInvitationByOperator: admin with nodes',
  'GET .well-known/oauth-authorization-server': 'getServerMetadata: open',
  'POST internal/validate-app': 'validateApp: app',
  'POST internal/validate-node': 'validateNode: node',
  'POST internal/validate-user': 'validateUser: user',
  'POST internal/changes': 'pollChanges: app',
  'POST internal/introspect': 'introspectToken: app',
  'POST internal/token': 'exchangeToken: app',
  'GET internal/authorize/node': 'authorizeNode: node',
  'GET internal/authorize/app': 'authorizeApp: app',
  'GET internal/authorize/user': 'authorizeUser: user',
  'POST api/v0/admin/enrolments': 'issueEnrolment: admin with nodes',
  'GET api/v0/admin/enrolments': 'listEnrolments: admin with nodes',
  'GET api/v0/admin/enrolments/:enrolment_id': 'getEnrolment: admin with nodes',
  'DELETE api/v0/admin/enrolments/:enrolment_id': 'cancelEnrolment: admin with nodes',
  'POST api/v0/admin/nodes': 'issueNode: admin with nodes',
  'GET api/v0/admin/nodes': 'listNodes: admin with nodes',
  'GET api/v0/admin/nodes/summary': 'countNodes: admin with nodes',
  'GET api/v0/admin/nodes/:node_id': 'getNode: admin with nodes',
  'PATCH api/v0/admin/nodes/:node_id': 'updateNode: admin with nodes',
  'DELETE api/v0/admin/nodes/:node_id': 'revokeNode: admin with nodes',
  'POST api/v0/admin/nodes/revoke': 'revokeNodes: admin with nodes',
  'POST api/v0/admin/app-credentials/revoke': 'revokeAppCredentials: admin with apps',
  'POST api/v0/admin/nodes/:node_id/rotate': 'rotateNode: admin with nodes',
  'GET api/v0/admin/nodes/:node_id/explain': 'explainNode: admin with nodes',
  'GET api/v0/admin/app-credentials/:app_id/explain': 'explainAppCredential: admin with apps',
  'POST api/v0/admin/app-credentials': 'issueAppCredential: admin with apps',
  'GET api/v0/admin/app-credentials/unused-scopes': 'listUnusedScopes: admin with apps',
  'GET api/v0/admin/nodes/targets': 'listTargetsOfNodes: admin with nodes',
  'PATCH api/v0/admin/app-credentials/:app_id': 'updateAppCredential: admin with apps',
  'GET api/v0/admin/app-credentials': 'listAppCredentials: admin with apps',
  'GET api/v0/admin/app-credentials/summary': 'countAppCredentials: admin with apps',
  'GET api/v0/admin/app-credentials/:app_id': 'getAppCredential: admin with apps',
  'DELETE api/v0/admin/app-credentials/:app_id': 'revokeAppCredential: admin with apps',
  'POST api/v0/admin/app-credentials/:app_id/rotate': 'rotateAppCredential: admin with apps',
  'POST api/v0/admin/app-credentials/:app_id/finish-rotation': 'finishAppCredentialRotation: admin with apps',
  'POST api/v0/admin/keys/identify': 'identifyKeys: admin with any',
  'POST api/v0/admin/operators': 'issueOperator: admin with operators',
  'GET api/v0/admin/operators': 'listOperators: admin with operators',
  'GET api/v0/admin/operators/:operator_id': 'getOperator: admin with operators',
  'PATCH api/v0/admin/operators/:operator_id': 'updateOperator: admin with operators',
  'DELETE api/v0/admin/operators/:operator_id': 'revokeOperator: admin with operators',
  'POST api/v0/admin/operators/:operator_id/rotate': 'rotateOperator: admin with operators',
  'POST api/v0/admin/operators/:operator_id/finish-rotation': 'finishOperatorRotation: admin with operators',
  'GET api/v0/admin/operators/:operator_id/passkeys': 'listOperatorPasskeys: admin with operators',
  'DELETE api/v0/admin/operators/:operator_id/passkeys/:passkey_id': 'removeOperatorPasskey: admin with operators',
  'GET api/v0/admin/audit-events': 'listAuditEvents: admin with read',
  'GET api/v0/admin/background-work': 'getBackgroundWork: admin with read',
  'GET api/v0/admin/findings': 'listFindings: admin with any',
  'GET api/v0/admin/hourly-counts': 'listHourlyCounts: admin with read',
  'GET api/v0/admin/configuration-review': 'reviewConfiguration: admin with read',
  'POST api/v0/admin/users': 'createUser: admin with users',
  'GET api/v0/admin/users': 'listUsers: admin with users',
  'POST api/v0/admin/users/search': 'searchUsers: admin with users',
  'GET api/v0/admin/users/:id': 'getUserAsAdmin: admin with users',
  'PATCH api/v0/admin/users/:id': 'updateUser: admin with users',
  'DELETE api/v0/admin/users/:id': 'deleteUser: admin with users',
  'GET api/v0/admin/users/:id/explain': 'explainUser: admin with users',
  'GET api/v0/admin/networks/explain': 'explainNetwork: admin with users',
  'GET api/v0/admin/users/:id/sessions': 'listUserSessions: admin with users',
  'DELETE api/v0/admin/users/:id/sessions': 'endUserSessions: admin with users',
  'DELETE api/v0/admin/users/:id/factors': 'removeUserFactors: admin with users',
  'DELETE api/v0/admin/users/:id/throttles': 'removeUserThrottles: admin with users',
  'POST api/v0/admin/users/:id/password-reset': 'issuePasswordReset: admin with users',
};

/** A service may send its own credential beside the one that it forwards. */
const FORWARDED = ['POST internal/validate-node', 'POST internal/validate-user'];

const readSource = (file: string): string => readFileSync(fromRoot(`src/${file}`), 'utf8');

const CONTROLLERS = readdirSync(fromRoot('src'), { recursive: true, encoding: 'utf8' }).filter(
  (file) => file.endsWith('.ts') && /@(Admin|Internal)?Controller\(/.test(readSource(file)),
);

type Door = 'user' | 'app' | 'node' | 'admin';

interface DocumentedRoute extends Route {
  readonly template: string;
  readonly verb: 'get' | 'post' | 'put' | 'patch' | 'delete';
}

const SECURITY: Readonly<Record<Door, object[]>> = {
  user: [{ user: [] }],
  app: [{ app_id: [], app_key: [] }],
  node: [{ node: [] }],
  admin: [{ admin: [] }],
};

const WITHOUT_CREDENTIAL: Readonly<Record<Door, Problem>> = {
  user: problems.missingAccessToken,
  app: problems.invalidAppCredentials,
  node: problems.invalidNodeCredentials,
  admin: problems.invalidAdminKey,
};

/** Every route of every controller that Nest knows, but pages. */
function routesOf(app: TestApp): DocumentedRoute[] {
  const { routes } = app.nest.get(RouteTable);
  return routes
    .filter(({ handler, body, audience }) => handler && !(audience === 'operators' && body === 'form'))
    .map((route) => ({
      ...route,
      template: route.path.replace(/:(\w+)/g, '{$1}'),
      verb: route.method.toLowerCase() as DocumentedRoute['verb'],
    }));
}

describe('every route of every controller', () => {
  const app = useApp();
  let routes: DocumentedRoute[];
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

  const call = ({ verb, template }: DocumentedRoute, headers: Record<string, string> = {}) => {
    const path = template.replace(/\{\w+\}/g, randomUUID());
    const request = verb === 'get' || verb === 'delete' ? app[verb](path) : app[verb](path, {});
    if (FORMS.includes(template)) return app.post(path).type('form').send('token=t').set(headers);
    // Without it, the answer is not a verdict.
    if (template === '/internal/authorize/app') request.set('X-Platform-Target', 'auth');
    return request.set(headers);
  };
  const guarded = (): DocumentedRoute[] => {
    const found = routes.filter(({ doors }) => doors.length > 0);
    expect(found.length).toBeGreaterThan(20);
    return found;
  };

  it('declares exactly one door policy, one scope for the admin door, and a guard for each door', () => {
    const declared: Record<string, string> = {};
    for (const { name, handler, path, method, doors, scope } of routes) {
      const route = `${method} ${path.slice(1)}`;
      const named = doors.map((door) => (door === 'admin' ? `admin with ${scope ?? 'NO SCOPE'}` : door));
      const door = named.join(' or ') || 'open';
      if (!doors.includes('admin')) expect({ route, scope }).toEqual({ route, scope: undefined });
      // The same decorator that declares a door guards it. One more guard throttles.
      const guards = (Reflect.getMetadata('__guards__', handler!) as unknown[] | undefined) ?? [];
      const more = guards.length - (door === 'open' ? 0 : FORWARDED.includes(route) ? 2 : 1);
      declared[route] = `${name}: ${door}${['', ', throttled'][more] ?? ` and ${guards.length} guards`}`;
    }
    expect(declared).toEqual(POLICY);
  });

  it('declares its doors, or that it has none, or the service does not start', () => {
    class Undeclared {
      @Get('undeclared') show(): void {}
    }
    const modules = new Map([['one', { controllers: new Map([['one', { metatype: Undeclared }]]) }]]);
    expect(() => new RouteTable(modules as unknown as ModulesContainer)).toThrow('Undeclared.show declares neither');
  });

  it('is for services alone below /internal, and for operators alone below /api/v0/admin', () => {
    const misplaced = app.nest.get(RouteTable).routes.filter(({ path, audience }) => {
      if (path.startsWith('/internal/authorize/')) return audience !== 'gateways';
      if (path.startsWith('/internal/')) return audience !== 'services';
      if (/^\/(api\/v0\/admin|console)(\/|$)/.test(path)) return audience !== 'operators';
      return audience !== 'anyone';
    });
    expect(misplaced).toEqual([]);
  });

  it('takes the lists that the rules of its DTO allow, and no other list', () => {
    const withLists = routes.filter(({ lists }) => lists.size > 0);
    const found = withLists.map(({ method, path, lists }) => [`${method} ${path}`, Object.fromEntries(lists)]);
    expect(Object.fromEntries(found)).toEqual({
      'POST /api/v0/admin/nodes': { '/targets': 32 },
      'PATCH /api/v0/admin/nodes/:node_id': { '/targets': 32 },
      'POST /api/v0/admin/enrolments': { '/targets': 32 },
      'POST /api/v0/admin/app-credentials': { '/scopes': 32 },
      'PATCH /api/v0/admin/app-credentials/:app_id': { '/scopes': 32 },
      'POST /api/v0/admin/operators': { '/scopes': 5 },
      'PATCH /api/v0/admin/operators/:operator_id': { '/scopes': 5 },
      'POST /api/v0/admin/nodes/revoke': { '/ids': 500 },
      'POST /api/v0/admin/app-credentials/revoke': { '/ids': 500 },
      'POST /api/v0/admin/keys/identify': { '/digests': 32 },
      'POST /internal/users/lookup': { '/ids': 100 },
      'PUT /api/v0/admin/event-subscriptions/:service': { '/types': 16 },
      'POST /api/v0/users/me/passkeys': { '/passkey/response/transports': 8 },
    });
  });

  it('declares its door policy and its scope in one decorator', () => {
    expect(CONTROLLERS.length).toBeGreaterThan(5);
    for (const file of CONTROLLERS) {
      const text = readSource(file);
      const declarations = text.match(/^ {2}@(Get|Post|Patch|Put|Delete)\(/gm) ?? [];
      const doors =
        text.match(
          /^ {2}@(Public|Require(User|ForwardedUser|PresentedApp|Node|NodeItself|App|Admin|AdminOr|With)|Authorize)\(/gm,
        ) ?? [];
      expect({ file, routes: declarations.length }).toEqual({ file, routes: doors.length });
      expect(declarations.length).toBeGreaterThan(0);
    }
  });

  it('is documented in OpenAPI, and no other route is', () => {
    const documented = Object.entries(document.paths).flatMap(([path, item]) =>
      Object.keys(item).map((method) => `${method} ${path}`),
    );
    expect(documented.sort()).toEqual(routes.map(({ verb, template }) => `${verb} ${template}`).sort());
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
    const expectedOf = ({ template, doors }: DocumentedRoute): object[] => {
      // Logout accepts a bearer token, or none.
      if (template === '/api/v0/auth/logout') return [{ user: [] }, {}];
      if (template === '/internal/validate-user') return [{ user: [] }, { user: [], app_id: [], app_key: [] }];
      if (template === '/internal/validate-node') return [{ node: [] }, { node: [], app_id: [], app_key: [] }];
      if (FORMS.includes(template)) return [{ app_id: [], app_key: [] }, { app_basic: [] }];
      return doors.flatMap((door) => SECURITY[door]);
    };
    const documented = routes.map((route) => ({
      route,
      security: sorted(document.paths[route.template]![route.verb]!.security),
    }));
    expect(documented).toEqual(routes.map((route) => ({ route, security: sorted(expectedOf(route)) })));
  });

  it('with a door answers 401 without a credential', async () => {
    for (const route of guarded()) {
      const [door, ...others] = route.doors;
      const answer = await call(route);
      // Its errors have the form of OAuth.
      if (route.template === '/internal/token') expect(answer.body).toMatchObject({ error: 'invalid_client' });
      else expectProblem(answer, others.length > 0 ? problems.unauthenticated : WITHOUT_CREDENTIAL[door!]);
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
