import { randomUUID } from 'node:crypto';
import { spawn } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Checks } from '../../tools/checks.js';
import { TOTP } from 'otpauth';
import type { Cleanup } from '../../tools/cleanup.js';
import { isResponding } from '../../tools/server-process.js';
import { repeatWhile } from '../../tools/repeat-while.js';

const START_TIMEOUT_MS = 90_000;
const POLL_INTERVAL_MS = 100;

interface Violation {
  readonly location?: readonly string[];
  readonly message: string;
}
interface Call {
  readonly operation: string;
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as JSON, or as a form. */
  readonly body?: object;
  readonly form?: Readonly<Record<string, string>>;
  /** Of the path, whose ids are separated by a slash. */
  readonly id?: string;
  readonly query?: string;
}
type Fields = Record<string, string>;

/** Starts the validation proxy of Prism. It reports what differs from the document in the header `sl-violations`. */
export async function startPrism(cleanup: Cleanup, program: string, document: string, upstream: string, port: number) {
  cleanup.assertOpen();
  const words = ['proxy', document, upstream, '--port', String(port), '--verboseLevel', 'silent'];
  const child = spawn(process.execPath, [program, ...words], { stdio: ['ignore', 'ignore', 'inherit'] });
  cleanup.defer(() => child.kill('SIGKILL'));
  const url = `http://127.0.0.1:${port}`;
  for (const deadline = performance.now() + START_TIMEOUT_MS; !(await isResponding(url));) {
    if (performance.now() > deadline || child.exitCode !== null) throw new Error('Prism has not started');
    await sleep(POLL_INTERVAL_MS);
  }
  return url;
}

/** Calls every operation through the proxy, with a success and with refusals, and checks each answer. */
export class ProxiedCalls {
  private readonly called = new Set<string>();
  private readonly asAdmin: Fields;

  constructor(
    private readonly url: string,
    adminKey: string,
    private readonly checks: Checks,
  ) {
    this.asAdmin = { 'X-Admin-Key': adminKey };
  }

  async callAll(operations: readonly string[]): Promise<void> {
    await this.callAsUser();
    await this.callForFactors();
    await this.callForHouseholds();
    await this.callAsAdminForApps();
    await this.callAsAdminForNodes();
    await this.callAsAdminForOperators();
    await this.callAsAdminForKeys();
    await this.callAsAdminForUsers();
    await this.callForLinks();
    await this.call({ operation: 'GET /health', status: 200 });
    await this.call({ operation: 'GET /health/live', status: 200 });
    await this.call({ operation: 'GET /health/ready', status: 200 });
    await this.call({ operation: 'GET /.well-known/jwks.json', status: 200 });
    // The service's JWT_ISSUER is no URL.
    await this.call({ operation: 'GET /.well-known/oauth-authorization-server', status: 404 });
    const missing = operations.filter((name) => !this.called.has(name));
    this.checks.note('every operation was called through Prism', missing.length === 0, missing.join(', '));
  }

  private async callAsUser(): Promise<void> {
    const body = { email: `${randomUUID()}@example.org`, password: 'correct horse battery' };
    const [register, login] = ['POST /api/v0/auth/register', 'POST /api/v0/auth/login'];
    const user = await this.call({ operation: register, status: 201, body });
    await this.call({ operation: register, status: 409, body });
    await this.call({ operation: register, status: 400, body: {} });
    await this.call({ operation: login, status: 401, body: { ...body, password: 'wrong' } });
    const tokens = await this.call({ operation: login, status: 200, body });
    const headers = { Authorization: `Bearer ${tokens.access_token ?? ''}` };
    await this.call({ operation: 'GET /api/v0/users/me', status: 200, headers });
    await this.call({ operation: 'GET /api/v0/users/me', status: 401 });
    await this.call({ operation: 'GET /api/v0/users/{id}', status: 200, headers, id: user.id ?? '' });
    await this.call({ operation: 'GET /api/v0/users/{id}', status: 404, headers, id: randomUUID() });
    await this.callWithToken(tokens.access_token ?? '', headers);
    await this.callAsOwner(body, headers);
    const refresh = { refresh_token: tokens.refresh_token };
    await this.call({ operation: 'POST /api/v0/auth/refresh', status: 200, body: refresh });
    await this.call({ operation: 'POST /api/v0/auth/refresh', status: 401, body: { refresh_token: 'x' } });
    await this.call({ operation: 'POST /api/v0/auth/logout', status: 204, headers, body: {} });
    await this.call({ operation: 'POST /api/v0/auth/logout', status: 400, body: {} });
  }

  /** In the session of the headers, which goes on. */
  private async callAsOwner({ email, password }: { email: string; password: string }, headers: Fields): Promise<void> {
    const path = '/api/v0/users/me';
    await this.call({ operation: `GET ${path}/sessions`, status: 200, headers });
    await this.call({ operation: `DELETE ${path}/sessions`, status: 204, headers });
    await this.call({ operation: `DELETE ${path}/sessions/{id}`, status: 404, headers, id: randomUUID() });
    const change = { current_password: password, new_password: 'staple the correct horse' };
    await this.call({ operation: `POST ${path}/password`, status: 204, headers, body: change });
    await this.call({ operation: `POST ${path}/password`, status: 403, headers, body: change });
    await this.call({ operation: `POST ${path}/delete`, status: 403, headers, body: { password } });
    const leaver = { email: `leaving-${email}`, password };
    await this.call({ operation: 'POST /api/v0/auth/register', status: 201, body: leaver });
    const tokens = await this.call({ operation: 'POST /api/v0/auth/login', status: 200, body: leaver });
    const asLeaver = { Authorization: `Bearer ${tokens.access_token ?? ''}` };
    await this.call({ operation: `POST ${path}/delete`, status: 204, headers: asLeaver, body: { password } });
  }

  private async callForHouseholds(): Promise<void> {
    const [path, password] = ['/api/v0/households', 'correct horse battery'];
    const [owner, guest] = [await this.registerUser(password), await this.registerUser(password)];
    const { headers } = owner;
    const { id = '' } = await this.call({ operation: `POST ${path}`, status: 201, headers, body: { name: 'home' } });
    await this.call({ operation: `POST ${path}`, status: 400, headers, body: { name: '' } });
    await this.call({ operation: `GET ${path}`, status: 200, headers });
    await this.call({ operation: `GET ${path}/{id}`, status: 200, headers, id });
    await this.call({ operation: `GET ${path}/{id}`, status: 404, headers: guest.headers, id });
    await this.call({ operation: `PATCH ${path}/{id}`, status: 200, headers, id, body: { name: 'house' } });
    const invite = `POST ${path}/{id}/invitations`;
    const { code } = await this.call({ operation: invite, status: 201, headers, id, body: {} });
    const other = await this.call({ operation: invite, status: 201, headers, id });
    const accept = 'POST /api/v0/invitations/accept';
    await this.call({ operation: accept, status: 200, headers: guest.headers, body: { code } });
    await this.call({ operation: accept, status: 404, headers: guest.headers, body: { code: 'x' } });
    await this.call({ operation: invite, status: 403, headers: guest.headers, id });
    await this.call({ operation: `GET ${path}/{id}/invitations`, status: 200, headers, id });
    const otherId = `${id}/${other.id ?? ''}`;
    await this.call({
      operation: `DELETE ${path}/{id}/invitations/{invitation_id}`,
      status: 204,
      headers,
      id: otherId,
    });
    await this.call({ operation: `GET ${path}/{id}/members`, status: 200, headers, id });
    const member = `${path}/{id}/members/{user_id}`;
    const guestId = `${id}/${guest.id}`;
    const promotion = { role: 'admin', password };
    await this.call({ operation: `PATCH ${member}`, status: 200, headers, id: guestId, body: promotion });
    await this.call({ operation: `PATCH ${member}`, status: 400, headers, id: guestId, body: { role: 'owner' } });
    await this.call({ operation: `DELETE ${member}`, status: 204, headers, id: guestId, body: { password } });
    const node = { room: 'hall', name: 'lamp' };
    await this.call({ operation: `POST ${path}/{id}/enrolments`, status: 403, headers, id, body: node });
    await this.call({ operation: `GET ${path}/{id}/nodes`, status: 200, headers, id });
    const nodeId = `${id}/${randomUUID()}`;
    await this.call({ operation: `DELETE ${path}/{id}/nodes/{node_id}`, status: 404, headers, id: nodeId });
    await this.callAsAdminForHouseholds(id, guest.id);
    await this.call({ operation: `DELETE ${path}/{id}`, status: 403, headers, id, body: { password: 'wrong' } });
    await this.call({ operation: `DELETE ${path}/{id}`, status: 204, headers, id, body: { password } });
  }

  private async callAsAdminForHouseholds(id: string, userId: string): Promise<void> {
    const { asAdmin: headers } = this;
    const [path, invitations] = ['/api/v0/admin/households', '/api/v0/admin/invitations'];
    await this.call({ operation: `GET ${path}`, status: 200, headers, query: '?search=house' });
    await this.call({ operation: `GET ${path}/{household_id}`, status: 200, headers, id });
    await this.call({ operation: `PATCH ${path}/{household_id}`, status: 200, headers, id, body: { name: 'home' } });
    const members = `${path}/{household_id}/members`;
    const body = { user_id: userId, role: 'member' };
    await this.call({ operation: `POST ${members}`, status: 201, headers, id, body });
    await this.call({ operation: `POST ${members}`, status: 409, headers, id, body });
    await this.call({ operation: `GET ${members}`, status: 200, headers, id });
    const member = { headers, id: `${id}/${userId}` };
    await this.call({ operation: `PATCH ${members}/{user_id}`, status: 200, ...member, body: { role: 'admin' } });
    await this.call({ operation: `DELETE ${members}/{user_id}`, status: 204, ...member });
    await this.call({ operation: `DELETE ${members}/{user_id}`, status: 404, ...member });
    await this.call({ operation: `GET ${invitations}`, status: 200, headers, query: '?open=true' });
    const unknown = randomUUID();
    await this.call({ operation: `DELETE ${invitations}/{invitation_id}`, status: 404, headers, id: unknown });
    await this.call({ operation: `DELETE ${path}/{household_id}`, status: 404, headers, id: unknown });
    const pair = { caller: randomUUID(), target: 'auth' };
    const issue = { operation: 'POST /api/v0/admin/app-credentials', status: 201, headers, body: pair };
    const app = await this.call(issue);
    const asApp = { 'X-Platform-App-Id': app.app_id ?? '', 'X-Platform-App-Key': app.app_key ?? '' };
    await this.call({ operation: 'GET /internal/households/{id}/members', status: 200, headers: asApp, id });
    const lookup = 'POST /internal/users/lookup';
    await this.call({ operation: lookup, status: 200, headers: asApp, body: { ids: [userId, unknown] } });
    await this.call({ operation: lookup, status: 400, headers: asApp, body: { ids: [] } });
    await this.callForEvents(pair.caller, asApp);
  }

  private async callForEvents(service: string, asApp: Fields): Promise<void> {
    const { asAdmin: headers } = this;
    const [path, read] = ['/api/v0/admin/event-subscriptions', 'POST /internal/events'];
    const one = { headers, id: service };
    const consumer = { consumer: randomUUID() };
    await this.call({ operation: read, status: 403, headers: asApp, body: consumer });
    const body = { types: ['user.registered'], from: 'beginning' };
    await this.call({ operation: `PUT ${path}/{service}`, status: 200, ...one, body });
    await this.call({ operation: read, status: 200, headers: asApp, body: { ...consumer, wait_seconds: 20 } });
    await this.call({ operation: read, status: 200, headers: asApp, body: { ...consumer, after: 'unreadable' } });
    await this.call({ operation: read, status: 409, headers: asApp, body: { consumer: randomUUID() } });
    await this.call({ operation: `GET ${path}`, status: 200, headers });
    await this.call({ operation: `GET ${path}/{service}`, status: 200, ...one });
    await this.call({ operation: `GET ${path}/{service}/events`, status: 200, ...one, query: '?limit=2' });
    await this.call({ operation: `POST ${path}/{service}/rewind`, status: 204, ...one, body: {} });
    await this.call({ operation: `POST ${path}/{service}/skip`, status: 409, ...one, body: { event: 'read' } });
    await this.call({ operation: `POST ${path}/{service}/skip`, status: 204, ...one, body: { all: true } });
    await this.call({ operation: `POST ${path}/reset`, status: 200, headers });
    await this.call({ operation: `DELETE ${path}/{service}`, status: 204, ...one });
    await this.call({ operation: `DELETE ${path}/{service}`, status: 404, ...one });
  }

  private async registerUser(password: string) {
    const body = { email: `${randomUUID()}@example.org`, password };
    const { id = '' } = await this.call({ operation: 'POST /api/v0/auth/register', status: 201, body });
    const tokens = await this.call({ operation: 'POST /api/v0/auth/login', status: 200, body });
    return { id, headers: { Authorization: `Bearer ${tokens.access_token ?? ''}` } };
  }

  /** With an authenticator app. What a browser would sign is refused. */
  private async callForFactors(): Promise<void> {
    const body = { email: `${randomUUID()}@example.org`, password: 'correct horse battery' };
    await this.call({ operation: 'POST /api/v0/auth/register', status: 201, body });
    const login = 'POST /api/v0/auth/login';
    const tokens = await this.call({ operation: login, status: 200, body });
    const headers = { Authorization: `Bearer ${tokens.access_token ?? ''}` };
    const me = '/api/v0/users/me';
    const proof = { password: body.password };
    await this.call({ operation: `GET ${me}/totp`, status: 404, headers });
    const enrolled = await this.call({ operation: `POST ${me}/totp`, status: 201, headers, body: proof });
    const app = new TOTP({ secret: enrolled.secret ?? '' });
    const code = app.generate();
    const confirmed = await this.call({ operation: `POST ${me}/totp/confirm`, status: 200, headers, body: { code } });
    const [first, second, third] = confirmed.recovery_codes as unknown as string[];
    await this.call({ operation: `GET ${me}/totp`, status: 200, headers });
    const { challenge } = await this.call({ operation: login, status: 403, body });
    const answer = 'POST /api/v0/auth/login/second-factor';
    await this.call({ operation: answer, status: 401, body: { challenge, method: 'totp', code } });
    await this.call({ operation: answer, status: 200, body: { challenge, method: 'recovery_code', code: first } });
    // No login demands an enrolment here (SECOND_FACTOR_REQUIRED).
    const enrolment = 'POST /api/v0/auth/login/enrolment/totp';
    await this.call({ operation: enrolment, status: 401, body: { challenge } });
    await this.call({ operation: `${enrolment}/confirm`, status: 401, body: { challenge, code } });
    const renew = { ...proof, code: second };
    const renewed = await this.call({ operation: `POST ${me}/recovery-codes`, status: 200, headers, body: renew });
    await this.call({ operation: `POST ${me}/totp/remove`, status: 403, headers, body: { ...proof, code: third } });
    const [last] = renewed.recovery_codes as unknown as string[];
    await this.call({ operation: `POST ${me}/totp/remove`, status: 204, headers, body: { ...proof, code: last } });
    await this.callForPasskeys(headers, proof);
  }

  private async callForPasskeys(headers: Fields, proof: object): Promise<void> {
    const passkeys = '/api/v0/users/me/passkeys';
    const id = randomUUID();
    const name = 'phone';
    const passkey = {};
    const response = { clientDataJSON: 'e30', authenticatorData: 'AAAA', signature: 'AAAA' };
    const unknownPasskey = { id: 'AAAA', rawId: 'AAAA', type: 'public-key', clientExtensionResults: {}, response };
    await this.call({ operation: `GET ${passkeys}`, status: 200, headers });
    await this.call({ operation: `POST ${passkeys}/options`, status: 200, headers, body: proof });
    await this.call({ operation: `POST ${passkeys}/options`, status: 403, headers, body: { password: 'wrong' } });
    await this.call({ operation: `POST ${passkeys}`, status: 400, headers, body: { name, passkey } });
    await this.call({ operation: `PATCH ${passkeys}/{id}`, status: 404, headers, id, body: { name } });
    await this.call({ operation: `POST ${passkeys}/{id}/remove`, status: 404, headers, id, body: proof });
    await this.call({ operation: 'POST /api/v0/auth/login/passkey/options', status: 200, body: {} });
    await this.call({ operation: 'POST /api/v0/auth/login/passkey', status: 400, body: { passkey } });
    await this.call({ operation: 'POST /api/v0/auth/login/passkey', status: 401, body: { passkey: unknownPasskey } });
  }

  private async callWithToken(token: string, headers: Fields): Promise<void> {
    await this.call({ operation: 'POST /internal/validate-user', status: 200, headers });
    await this.call({ operation: 'POST /internal/validate-user', status: 401 });
    await this.call({ operation: 'GET /internal/authorize/user', status: 200, headers });
    await this.call({ operation: 'GET /internal/authorize/user', status: 401 });
    const pair = { caller: randomUUID(), target: 'auth' };
    const issue = { operation: 'POST /api/v0/admin/app-credentials', status: 201, headers: this.asAdmin, body: pair };
    const app = await this.call(issue);
    const asApp = { 'X-Platform-App-Id': app.app_id ?? '', 'X-Platform-App-Key': app.app_key ?? '' };
    const introspect = 'POST /internal/introspect';
    await this.call({ operation: introspect, status: 200, headers: asApp, form: { token } });
    await this.call({ operation: introspect, status: 200, headers: asApp, form: { token: 'x' } });
    await this.call({ operation: introspect, status: 401, form: { token } });
    // The prepared service signs with HS256.
    const exchange = 'POST /internal/token';
    await this.call({ operation: exchange, status: 400, headers: asApp, form: { grant_type: 'x' } });
    await this.call({ operation: exchange, status: 401, form: { grant_type: 'x' } });
    await this.call({ operation: 'POST /internal/changes', status: 200, headers: asApp, body: {} });
    await this.call({ operation: 'POST /internal/changes', status: 401, body: {} });
  }

  private async callAsAdminForApps(): Promise<void> {
    const { asAdmin: headers } = this;
    const path = '/api/v0/admin/app-credentials';
    const [issue, target] = [`POST ${path}`, 'recipes'];
    const body = { caller: randomUUID(), target };
    const app = await this.call({ operation: issue, status: 201, headers, body });
    await this.call({ operation: issue, status: 409, headers, body });
    await this.call({ operation: issue, status: 401, body });
    const asApp = { 'X-Platform-App-Id': app.app_id ?? '', 'X-Platform-App-Key': app.app_key ?? '' };
    const validate = 'POST /internal/validate-app';
    await this.call({ operation: validate, status: 200, headers: asApp, body: { target } });
    await this.call({ operation: validate, status: 401, headers: asApp, body: { target: 'ocr' } });
    const toGateway = { ...asApp, 'X-Platform-Target': target };
    await this.call({ operation: 'GET /internal/authorize/app', status: 200, headers: toGateway });
    await this.call({ operation: 'GET /internal/authorize/app', status: 503, headers: asApp });
    await this.call({ operation: `GET ${path}`, status: 200, headers, query: '?limit=2' });
    await this.call({ operation: `GET ${path}`, status: 400, headers, query: '?limit=0' });
    const id = app.app_id ?? '';
    await this.call({ operation: `GET ${path}/{app_id}`, status: 200, headers, id });
    await this.call({ operation: `GET ${path}/{app_id}`, status: 404, headers, id: randomUUID() });
    const scopes = ['documents:read'];
    await this.call({ operation: `PATCH ${path}/{app_id}`, status: 200, headers, id, body: { scopes } });
    const granted = { ...toGateway, 'X-Platform-Scope': 'documents:read' };
    const lacking = { ...toGateway, 'X-Platform-Scope': 'documents:write' };
    for (const operation of [validate, 'GET /internal/authorize/app']) {
      await this.call({ operation, status: 200, headers: granted });
      await this.call({ operation, status: 403, headers: lacking });
    }
    await this.call({ operation: `POST ${path}/{app_id}/rotate`, status: 200, headers, id, body: {} });
    await this.call({ operation: `POST ${path}/{app_id}/finish-rotation`, status: 204, headers, id });
    await this.call({ operation: `GET ${path}/{app_id}/explain`, status: 200, headers, id, query: '?target=ocr' });
    await this.call({ operation: `GET ${path}/summary`, status: 200, headers });
    await this.call({ operation: `POST ${path}/revoke`, status: 200, headers, body: { ids: [id] } });
    await this.call({ operation: `GET ${path}/unused-scopes`, status: 200, headers });
    await this.call({ operation: `DELETE ${path}/{app_id}`, status: 204, headers, id });
    await this.call({ operation: `POST ${path}/{app_id}/rotate`, status: 409, headers, id, body: {} });
  }

  private async callAsAdminForNodes(): Promise<void> {
    const { asAdmin } = this;
    const path = '/api/v0/admin/nodes';
    const body = { household_id: randomUUID(), room: 'kitchen', name: 'speaker' };
    const headers = { ...asAdmin, 'Idempotency-Key': randomUUID() };
    const { node_id: id = '' } = await this.call({ operation: `POST ${path}`, status: 201, headers, body });
    const repeated = await this.call({ operation: `POST ${path}`, status: 201, headers, body });
    await this.call({ operation: `POST ${path}`, status: 422, headers, body: { ...body, name: 'lamp' } });
    const validate = 'POST /internal/validate-node';
    const key = `${id}:${repeated.api_key ?? ''}`;
    await this.call({ operation: validate, status: 200, headers: { 'X-API-Key': key } });
    await this.call({ operation: validate, status: 401, headers: { 'X-API-Key': `${id}:x` } });
    await this.call({ operation: 'GET /internal/authorize/node', status: 200, headers: { 'X-API-Key': key } });
    await this.call({ operation: 'GET /internal/authorize/node', status: 401 });
    await this.call({ operation: `GET ${path}`, status: 200, headers: asAdmin });
    await this.call({ operation: `GET ${path}/summary`, status: 200, headers: asAdmin });
    await this.call({ operation: `GET ${path}/{node_id}`, status: 200, headers: asAdmin, id });
    const change = { name: 'lamp', expires_at: '2099-01-01T00:00:00Z', targets: ['ocr'] };
    await this.call({ operation: `PATCH ${path}/{node_id}`, status: 200, headers: asAdmin, id, body: change });
    await this.call({ operation: validate, status: 401, headers: { 'X-API-Key': key } });
    const named = { 'X-API-Key': key, 'X-Platform-Target': 'ocr' };
    await this.call({ operation: validate, status: 200, headers: named });
    await this.call({ operation: `GET ${path}/targets`, status: 200, headers: asAdmin });
    await this.call({ operation: `POST ${path}/{node_id}/rotate`, status: 200, headers: asAdmin, id, body: {} });
    await this.call({ operation: `POST ${path}/revoke`, status: 200, headers: asAdmin, body: { ids: [id] } });
    await this.call({ operation: `DELETE ${path}/{node_id}`, status: 204, headers: asAdmin, id });
    await this.call({ operation: `GET ${path}/{node_id}/explain`, status: 200, headers: asAdmin, id });
    await this.call({ operation: `PATCH ${path}/{node_id}`, status: 409, headers: asAdmin, id, body: change });
    await this.callForEnrolments(body);
  }

  private async callAsAdminForKeys(): Promise<void> {
    const { asAdmin: headers } = this;
    const operation = 'POST /api/v0/admin/keys/identify';
    await this.call({ operation, status: 200, headers, body: { digests: ['a'.repeat(64)] } });
    await this.call({ operation, status: 400, headers, body: { digests: [] } });
  }

  private async callForEnrolments(body: object): Promise<void> {
    const { asAdmin: headers } = this;
    const [path, enrol] = ['/api/v0/admin/enrolments', 'POST /api/v0/nodes/enrol'];
    const rotate = 'POST /api/v0/nodes/me/rotate';
    const { code, enrolment_id: id = '' } = await this.call({ operation: `POST ${path}`, status: 201, headers, body });
    await this.call({ operation: `POST ${path}`, status: 400, headers, body: { ...body, expires_in_minutes: 0 } });
    await this.call({ operation: `GET ${path}`, status: 200, headers, query: '?open=true' });
    await this.call({ operation: `GET ${path}/{enrolment_id}`, status: 200, headers, id });
    const { node_id, api_key } = await this.call({ operation: enrol, status: 201, body: { code } });
    await this.call({ operation: rotate, status: 200, headers: { 'X-API-Key': `${node_id}:${api_key}` } });
    await this.call({ operation: rotate, status: 401, headers: { 'X-API-Key': `${node_id}:wrong` } });
    await this.call({ operation: enrol, status: 409, body: { code } });
    await this.call({ operation: enrol, status: 404, body: { code: 'AAAAA-AAAAA' } });
    await this.call({ operation: `DELETE ${path}/{enrolment_id}`, status: 409, headers, id });
    const other = await this.call({ operation: `POST ${path}`, status: 201, headers, body });
    const otherId = other.enrolment_id ?? '';
    await this.call({ operation: `DELETE ${path}/{enrolment_id}`, status: 204, headers, id: otherId });
  }

  private async callAsAdminForUsers(): Promise<void> {
    const { asAdmin: headers } = this;
    const path = '/api/v0/admin/users';
    const body = { email: `${randomUUID()}@example.org`, password: 'correct horse battery' };
    const { id = '' } = await this.call({ operation: `POST ${path}`, status: 201, headers, body });
    await this.call({ operation: 'POST /api/v0/auth/login', status: 200, body });
    await this.call({ operation: `GET ${path}`, status: 200, headers });
    await this.call({ operation: `POST ${path}/search`, status: 200, headers, body: { email: body.email } });
    await this.call({ operation: `GET ${path}/{id}`, status: 200, headers, id });
    await this.call({ operation: `GET ${path}/{id}/explain`, status: 200, headers, id, query: '?address=192.0.2.7' });
    await this.call({
      operation: 'GET /api/v0/admin/networks/explain',
      status: 200,
      headers,
      query: '?address=192.0.2.7',
    });
    await this.call({ operation: `GET ${path}/{id}/sessions`, status: 200, headers, id });
    await this.call({ operation: `DELETE ${path}/{id}/sessions`, status: 204, headers, id });
    await this.call({ operation: `DELETE ${path}/{id}/factors`, status: 204, headers, id });
    await this.call({ operation: `DELETE ${path}/{id}/throttles`, status: 204, headers, id });
    await this.call({ operation: `PATCH ${path}/{id}`, status: 200, headers, id, body: { is_active: false } });
    await this.call({ operation: `DELETE ${path}/{id}`, status: 204, headers, id });
    await this.call({ operation: `DELETE ${path}/{id}`, status: 404, headers, id });
    await this.call({ operation: 'GET /api/v0/admin/audit-events', status: 200, headers });
    await this.call({ operation: 'GET /api/v0/admin/background-work', status: 200, headers });
    await this.call({ operation: 'GET /api/v0/admin/hourly-counts', status: 200, headers });
    await this.call({ operation: 'GET /api/v0/admin/configuration-review', status: 200, headers });
    await this.call({ operation: 'GET /api/v0/admin/findings', status: 200, headers });
  }

  private async callForLinks(): Promise<void> {
    const [auth, password] = ['/api/v0/auth', 'correct horse battery'];
    const { asAdmin } = this;
    const body = { email: `${randomUUID()}@example.org`, password };
    const user = await this.call({ operation: 'POST /api/v0/admin/users', status: 201, headers: asAdmin, body });
    const tokens = await this.call({ operation: `POST ${auth}/login`, status: 200, body });
    const headers = { Authorization: `Bearer ${tokens.access_token ?? ''}` };
    const change = { password, new_email: `new-${body.email}` };
    await this.call({ operation: 'POST /api/v0/users/me/email', status: 202, headers, body: change });
    await this.call({ operation: 'POST /api/v0/users/me/email', status: 401, body: change });
    for (const kind of ['password-reset', 'email-verification']) {
      await this.call({ operation: `POST ${auth}/${kind}`, status: 202, body: { email: body.email } });
      await this.call({ operation: `POST ${auth}/${kind}`, status: 400, body: {} });
    }
    await this.call({ operation: `POST ${auth}/email-verification/confirm`, status: 400, body: { token: 'x' } });
    const issue = 'POST /api/v0/admin/users/{id}/password-reset';
    const { token } = await this.call({ operation: issue, status: 201, headers: asAdmin, id: user.id ?? '' });
    await this.call({ operation: issue, status: 404, headers: asAdmin, id: randomUUID() });
    const reset = { token, new_password: 'staple the correct horse' };
    await this.call({ operation: `POST ${auth}/password-reset/confirm`, status: 204, body: reset });
    await this.call({ operation: `POST ${auth}/password-reset/confirm`, status: 400, body: reset });
  }

  private async callAsAdminForOperators(): Promise<void> {
    const { asAdmin: headers } = this;
    const path = '/api/v0/admin/operators';
    const body = { name: randomUUID(), scopes: ['read', 'operators'] };
    const operator = await this.call({ operation: `POST ${path}`, status: 201, headers, body });
    await this.call({ operation: `POST ${path}`, status: 409, headers, body });
    const asOperator = { 'X-Admin-Key': operator.api_key ?? '' };
    const more = { name: randomUUID(), scopes: ['nodes'] };
    const node = { household_id: randomUUID(), room: 'kitchen', name: 'speaker' };
    await this.call({ operation: `POST ${path}`, status: 403, headers: asOperator, body: more });
    await this.call({ operation: 'GET /api/v0/admin/nodes', status: 200, headers: asOperator });
    await this.call({ operation: 'POST /api/v0/admin/nodes', status: 403, headers: asOperator, body: node });
    const id = operator.operator_id ?? '';
    await this.call({ operation: `GET ${path}`, status: 200, headers, query: '?limit=2' });
    await this.call({ operation: `GET ${path}/{operator_id}`, status: 200, headers, id });
    const change = { scopes: ['read'], expires_at: '2099-01-01T00:00:00Z' };
    await this.call({ operation: `PATCH ${path}/{operator_id}`, status: 200, headers, id, body: change });
    await this.call({ operation: `POST ${path}/{operator_id}/rotate`, status: 200, headers, id, body: {} });
    await this.call({ operation: `POST ${path}/{operator_id}/finish-rotation`, status: 204, headers, id });
    const passkeys = `${path}/{operator_id}/passkeys`;
    await this.call({ operation: `GET ${passkeys}`, status: 200, headers, id });
    const unknown = `${id}/${randomUUID()}`;
    await this.call({ operation: `DELETE ${passkeys}/{passkey_id}`, status: 404, headers, id: unknown });
    await this.call({ operation: `DELETE ${path}/{operator_id}`, status: 204, headers, id });
    await this.call({ operation: `POST ${path}/{operator_id}/rotate`, status: 409, headers, id, body: {} });
  }

  /** @returns the fields of the answer */
  private async call({ operation, status, headers, body, form, id = '', query = '' }: Call): Promise<Fields> {
    const [method = '', template = ''] = operation.split(' ');
    const ids = id.split('/');
    const path = template.replace(/\{\w+\}/g, () => ids.shift() ?? '');
    const send = async () => {
      const response = await fetch(this.url + path + query, {
        method,
        headers: { ...(body && { 'Content-Type': 'application/json' }), ...headers },
        ...(body && { body: JSON.stringify(body) }),
        ...(form && { body: new URLSearchParams(form) }),
      });
      return { response, text: await response.text() };
    };
    // On a busy machine, the lease of the change feed may end for a moment.
    const isUndecided = ({ response: { status: given } }: Awaited<ReturnType<typeof send>>): boolean =>
      given === 503 && status !== 503;
    const { response, text } = await repeatWhile(isUndecided, send, { pauseMs: POLL_INTERVAL_MS });
    const violations = JSON.parse(response.headers.get('sl-violations') ?? '[]') as Violation[];
    const ofResponse = violations.filter(({ location }) => location?.[0] === 'response');
    const isExpected = response.status === status && ofResponse.length === 0;
    const found = `${response.status} ${text.slice(0, 200)} ${JSON.stringify(ofResponse)}`;
    this.checks.note(`Prism accepts the answer ${status} of ${operation}`, isExpected, found);
    this.called.add(operation);
    return text === '' ? {} : (JSON.parse(text) as Fields);
  }
}
