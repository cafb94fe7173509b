import type { Test as SupertestRequest } from 'supertest';
import type { Database } from '../../../src/foundation/database/database.js';
import { NODE_KEYS } from '../../../src/domain/nodes/nodes.service.js';
import { LeaseAnnouncement } from '../../../src/domain/revocation/lease-announcement.js';
import { Propagation } from '../../../src/domain/revocation/propagation.js';
import { problems } from '../../../src/foundation/problems/problems.js';
import { expectProblem } from '../../support/expect-problem.js';
import { useApp } from '../../support/use-app.js';
import { Authenticator } from '../../domain/second-factors/authenticator.js';
import { FactorOwner } from '../../domain/second-factors/owner.js';
import { receiveToken, useMailServer } from '../../support/mail-server.js';
import { NEW_PASSWORD, Owner, WRONG } from '../../support/owner.js';
import { PASSWORD } from '../../support/settings.js';

const NO_CACHE = { 'Cache-Control': 'no-cache' };

const { server, variables } = useMailServer({ REVOCATION_LEASE_MS: '200' });
const app = useApp({ variables });

describe('validations with Cache-Control: no-cache', () => {
  const { clock } = app;

  /** What the answer says about how long it may be used. */
  const freshness = async (call: SupertestRequest) => {
    const { headers } = await call.expect(200);
    return {
      remember: headers['x-platform-remember'],
      expiresIn: Number(headers['x-platform-expires-in']),
      freshForMs: headers['x-platform-fresh-for-ms'],
    };
  };
  const validateUser = (token: string) => app.post('/internal/validate-user').set('Authorization', `Bearer ${token}`);

  it('tell how long a verdict may be used, and that it may be remembered, to callers that ask', async () => {
    const [node, service, user] = [await app.node(), await app.service('ocr', 'recipes'), await app.user()];
    const { access_token } = await user.logsIn();
    for (const call of [app.validateNode(node.header), app.validateApp(service.headers), validateUser(access_token)])
      expect(await freshness(call.set(NO_CACHE))).toEqual({ remember: 'yes', expiresIn: 60, freshForMs: '200' });
    const unasked = { remember: undefined, expiresIn: NaN, freshForMs: undefined };
    expect(await freshness(app.validateNode(node.header))).toEqual(unasked);
  });

  it('round down to the expiry of the key, or of the access token', async () => {
    const [user, node, moment] = [await app.user(), await app.node(), clock.now().getTime()];
    const { access_token } = await user.logsIn();
    // The access token has lived for all but 21 of its 900 seconds.
    clock.advance({ seconds: 879 });
    const expires_at = new Date(moment + 899_500).toISOString();
    await app.admin.patch(`/nodes/${node.nodeId}`, { expires_at }).expect(200);
    const pair = { caller: 'ocr', target: 'reminders', expires_at };
    const { body } = await app.admin.post('/app-credentials', pair).expect(201);
    const headers = { 'X-Platform-App-Id': body.app_id as string, 'X-Platform-App-Key': body.app_key as string };
    for (const call of [app.validateNode(node.header), app.validateApp(headers), validateUser(access_token)]) {
      const { remember, expiresIn } = await freshness(call.set(NO_CACHE));
      expect(remember).toBe('yes');
      expect(expiresIn).toBeLessThanOrEqual(21);
      expect(expiresIn).toBeGreaterThan(0);
    }
  });

  it('do not let either key of a node be remembered during the overlap of a rotation', async () => {
    const node = await app.node();
    await app.admin.post(`/nodes/${node.nodeId}/rotate`).expect(200);
    expect(await freshness(app.validateNode(node.header).set(NO_CACHE))).toMatchObject({ remember: 'no' });
  });

  it('let both keys of an app be remembered during the overlap, and name the old one, at most until its end', async () => {
    const { appId, headers } = await app.service();
    const { body } = await app.admin.post(`/app-credentials/${appId}/rotate`, { overlap_hours: 1 }).expect(200);
    clock.advance({ minutes: 59, seconds: 40 });
    const old = await app.validateApp(headers).set(NO_CACHE).expect(200);
    expect(old.headers).toMatchObject({ 'x-platform-remember': 'yes', 'x-platform-key': 'previous' });
    expect(Number(old.headers['x-platform-expires-in'])).toBeLessThanOrEqual(20);
    const fresh = await app
      .validateApp({ ...headers, 'X-Platform-App-Key': (body as { app_key: string }).app_key })
      .set(NO_CACHE)
      .expect(200);
    expect(fresh.headers).toMatchObject({ 'x-platform-remember': 'yes', 'x-platform-expires-in': '60' });
    expect(fresh.headers['x-platform-key']).toBeUndefined();
  });

  it('are read from PostgreSQL, not from the cache', async () => {
    const [node, service] = [await app.node(), await app.service()];
    // It remembers them for as long as this test runs.
    const cached = await app.startReplica({ variables: { OUTAGE_GRACE_SECONDS: '3600' } });
    await cached.validateNode(node.header).expect(200);
    await cached.validateApp(service.headers).expect(200);
    for (const [table, id] of [
      ['nodes', node.nodeId],
      ['app_credentials', service.appId],
    ] as const) {
      await app.database.query(`ALTER TABLE ${table} DISABLE TRIGGER USER`);
      await app.database.query(`UPDATE ${table} SET revoked_at = now() WHERE id = $1`, [id]);
      await app.database.query(`ALTER TABLE ${table} ENABLE ALWAYS TRIGGER ${table}_record_update`);
      await app.database.query(`ALTER TABLE ${table} ENABLE ALWAYS TRIGGER ${table}_record_delete`);
    }
    await cached.validateNode(node.header).expect(200);
    await cached.validateApp(service.headers).expect(200);
    expectProblem(await cached.validateNode(node.header).set(NO_CACHE), problems.invalidNodeCredentials);
    expectProblem(await cached.validateApp(service.headers).set(NO_CACHE), problems.invalidAppCredentials);
    await cached.stop();
  });

  it('hand on half a second, and nothing to remember, when the lease is 0', async () => {
    const node = await app.node();
    const unleased = await app.startReplica({ variables: { REVOCATION_LEASE_MS: '0' } });
    const handedOn = await freshness(unleased.validateNode(node.header).set(NO_CACHE));
    expect(handedOn).toEqual({ remember: 'no', expiresIn: 60, freshForMs: '500' });
    await unleased.stop();
  });

  it.each([
    ['on arrival', [false, true]],
    ['when it is answered', [true, false]],
  ])('hand on nothing while revoking calls do not know the promises of the replica %s', async (_when, answers) => {
    const node = await app.node();
    const replica = await app.startReplica();
    const isCurrent = jest.spyOn(replica.nest.get(LeaseAnnouncement), 'isCurrent', 'get');
    // The feed of the replica asks too, between the two judgements of the request.
    isCurrent.mockReturnValue(answers[0]!);
    const { database } = replica.nest.get<{ database: Database }>(NODE_KEYS);
    const rows = jest.spyOn(database, 'rows');
    rows.mockImplementation((...read) => {
      isCurrent.mockReturnValue(answers[1]!);
      rows.mockRestore();
      return database.rows(...read);
    });
    const handedOn = await freshness(replica.validateNode(node.header).set(NO_CACHE));
    expect(handedOn).toEqual({ remember: 'no', expiresIn: 60, freshForMs: '0' });
    await replica.stop();
  });
});

/** When such a call has answered, no verifier accepts what it ended, not even one that is cut off. */
describe('calls that end sessions or users', () => {
  const waitsOf = async (call: () => PromiseLike<unknown>, at = app): Promise<number> => {
    const waits = jest.spyOn(at.nest.get(Propagation), 'awaitPropagation');
    await call();
    const { length } = waits.mock.calls;
    waits.mockRestore();
    return length;
  };

  it('wait for propagation, also when there is nothing left to end', async () => {
    const user = await app.user();
    const { access_token, refresh_token } = await user.logsIn();
    for (let i = 0; i < 2; i += 1) {
      expect(await waitsOf(() => app.logout(refresh_token).expect(204))).toBe(1);
      const bearer = { Authorization: `Bearer ${access_token}` };
      expect(await waitsOf(() => app.post('/api/v0/auth/logout').set(bearer).expect(204))).toBe(1);
      expect(await waitsOf(() => app.admin.delete(`/users/${user.id}/sessions`).expect(204))).toBe(1);
      expect(await waitsOf(() => app.admin.patch(`/users/${user.id}`, { is_active: false }).expect(200))).toBe(1);
    }
    expect(await waitsOf(() => app.admin.delete(`/users/${user.id}`).expect(204))).toBe(1);
    expect(await waitsOf(() => app.admin.delete(`/users/${user.id}`).expect(404))).toBe(1);
    expect(await waitsOf(() => app.admin.delete(`/users/${user.id}/sessions`).expect(404))).toBe(1);
  });

  it('of an owner wait too, also when they are refused or find nothing left to end', async () => {
    const owner = await Owner.of(app);
    const id = await (await owner.elsewhere()).sessionId();
    for (let i = 0; i < 2; i += 1) {
      expect(await waitsOf(() => owner.end(id).expect(204))).toBe(1);
      expect(await waitsOf(() => owner.endOthers().expect(204))).toBe(1);
    }
    expect(await waitsOf(() => owner.end('unknown').expect(404))).toBe(1);
    expect(await waitsOf(() => owner.changePassword().expect(204))).toBe(1);
    expect(await waitsOf(() => owner.changePassword().expect(403))).toBe(1);
    expect(await waitsOf(() => owner.deleteAccount(WRONG).expect(403))).toBe(1);
    expect(await waitsOf(() => owner.deleteAccount(NEW_PASSWORD).expect(204))).toBe(1);
  });

  it('wait too when they repeat a first factor or a reset whose answer was lost, and when an operator removes factors', async () => {
    const owner = await FactorOwner.withTotp(app);
    expect(await waitsOf(() => owner.post('/totp/confirm', { code: owner.code() }).expect(409))).toBe(1);
    const proof = await owner.proof();
    expect(await waitsOf(() => owner.post('/totp', proof).expect(409))).toBe(1);
    const issued = await app.admin.post(`/users/${owner.user.id}/password-reset`, {}).expect(201);
    const { token } = issued.body as { token: string };
    const reset = () => app.post('/api/v0/auth/password-reset/confirm', { token, new_password: NEW_PASSWORD });
    expect(await waitsOf(() => reset().expect(204))).toBe(1);
    expect(await waitsOf(() => reset().expect(400))).toBe(1);
    // An operator removes the second factors, and then finds none.
    const remove = () => app.admin.delete(`/users/${owner.user.id}/factors`);
    for (let i = 0; i < 2; i += 1) expect(await waitsOf(() => remove().expect(204))).toBe(1);
    await app.admin.delete(`/users/${owner.user.id}`).expect(204);
    expect(await waitsOf(() => remove().expect(404))).toBe(1);
  });

  it('wait too when they repeat the confirmation of an enrolment that a login demanded', async () => {
    const owner = await FactorOwner.of(app);
    const strict = await app.startReplica({ variables: { SECOND_FACTOR_REQUIRED: 'true' } });
    const { challenge } = await owner.isChallenged(strict);
    const path = '/api/v0/auth/login/enrolment/totp';
    const { body } = await strict.post(path, { challenge }).expect(201);
    owner.secret = (body as { secret: string }).secret;
    const confirm = () => strict.post(`${path}/confirm`, { challenge, code: owner.code() });
    expect(await waitsOf(() => confirm().expect(200), strict)).toBe(1);
    expect(await waitsOf(() => confirm().expect(401), strict)).toBe(1);
    await strict.stop();
  });

  it('wait too when a passkey is the first factor, and when the call is repeated', async () => {
    const owner = await FactorOwner.of(app);
    const authenticator = new Authenticator();
    const register = async (options = owner.creationOptions()) => {
      const passkey = authenticator.create(await options);
      return () => owner.post('/passkeys', { name: 'phone', passkey });
    };
    const first = await register();
    expect(await waitsOf(() => first().expect(201))).toBe(1);
    expect(await waitsOf(() => first().expect(400))).toBe(1);
    owner.authenticator = authenticator;
    const again = await register();
    expect(await waitsOf(() => again().expect(409))).toBe(1);
    const second = new Authenticator().create(await owner.creationOptions());
    expect(await waitsOf(() => owner.post('/passkeys', { name: 'key', passkey: second }).expect(201))).toBe(0);
  });

  it('wait too when an address is changed, by which verifiers forget the old one, and when the link was used', async () => {
    const owner = await Owner.of(app);
    const new_email = `new-${owner.user.email}`;
    await owner.as(app.post('/api/v0/users/me/email', { password: PASSWORD, new_email })).expect(202);
    const token = await receiveToken(app, server, new_email);
    const confirm = () => app.post('/api/v0/auth/email-verification/confirm', { token });
    expect(await waitsOf(() => confirm().expect(204))).toBe(1);
    expect(await waitsOf(() => confirm().expect(400))).toBe(1);
  });

  it('read no announcement, and do not wait, when the token does not parse', async () => {
    expect(await waitsOf(() => app.logout('not a refresh token').expect(204))).toBe(0);
    const { access_token } = await (await app.user()).logsIn();
    const bearer = { Authorization: `Bearer ${access_token}` };
    expect(await waitsOf(() => app.logout('not a refresh token').set(bearer).expect(204))).toBe(1);
    const reset = { token: 'not a token', new_password: NEW_PASSWORD };
    expect(await waitsOf(() => app.post('/api/v0/auth/password-reset/confirm', reset).expect(400))).toBe(0);
    const confirm = () => app.post('/api/v0/auth/email-verification/confirm', { token: 'not a token' });
    expect(await waitsOf(() => confirm().expect(400))).toBe(0);
  });

  it('are the only ones: logins, refreshes, lists and enabling a user do not wait', async () => {
    const user = await app.user();
    const { refresh_token } = await user.logsIn();
    expect(await waitsOf(() => app.refresh(refresh_token).expect(200))).toBe(0);
    expect(await waitsOf(() => app.admin.patch(`/users/${user.id}`, { is_active: true }).expect(200))).toBe(0);
    expect(await waitsOf(() => app.refresh('unknown').expect(401))).toBe(0);
    const owner = await Owner.of(app);
    expect(await waitsOf(() => owner.sessions())).toBe(0);
    expect(await waitsOf(() => owner.changePassword(NEW_PASSWORD, 'short').expect(400))).toBe(0);
    expect(await waitsOf(() => app.post('/api/v0/auth/logout', {}).expect(400))).toBe(0);
  });
});
