import { randomUUID } from 'node:crypto';
import { problems } from '../../../src/foundation/problems/problems.js';
import { PurgeJob } from '../../../src/domain/maintenance/jobs.js';
import { eventually } from '../../../tools/eventually.js';
import { recorded } from '../../domain/audit/record.js';
import { FactorOwner } from '../../domain/second-factors/owner.js';
import { expectInvalid, expectProblem } from '../../support/expect-problem.js';
import { receive, receiveToken, useMailServer, workOff } from '../../support/mail-server.js';
import { ADMIN_KEY, PASSWORD, UNLEASED } from '../../support/settings.js';
import type { TestApp } from '../../support/test-app.js';
import { useApp } from '../../support/use-app.js';

describe('/api/v0/admin/users', () => {
  const { server, variables } = useMailServer();
  const app = useApp({ variables });
  const newAddress = (): string => `${randomUUID()}@example.net`;

  it('creates, shows and deletes a user, whose address can then be used again', async () => {
    const email = `${randomUUID()}@example.org`;
    const { body } = await app.admin.post('/users', { email, password: PASSWORD }).expect(201);
    const { id } = body as { id: string };
    expect((await app.admin.get(`/users/${id}`).expect(200)).body).toEqual(body);
    expectProblem(await app.admin.post('/users', { email, password: PASSWORD }), problems.emailTaken);
    expectInvalid(await app.admin.post('/users', { email: 'x', password: PASSWORD }), '/email');
    await app.admin.delete(`/users/${id}`).expect(204);
    expectProblem(await app.admin.get(`/users/${id}`), problems.notFound);
    expectProblem(await app.admin.delete(`/users/${id}`), problems.notFound);
    await app.admin.post('/users', { email, password: PASSWORD }).expect(201);
  });

  it('disables a user, whose logins are then refused, and enables it again', async () => {
    const alice = await app.user();
    for (const is_active of [false, true]) {
      const { body } = await app.admin.patch(`/users/${alice.id}`, { is_active }).expect(200);
      expect(body).toMatchObject({ id: alice.id, is_active });
      expect((await app.login(alice.email)).status).toBe(is_active ? 200 : 401);
    }
    expectInvalid(await app.admin.patch(`/users/${alice.id}`, { is_active: 'no' }), '/is_active');
    expectInvalid(await app.admin.patch(`/users/${alice.id}`, {}), '/is_active');
    expectProblem(await app.admin.patch(`/users/${randomUUID()}`, { is_active: true }), problems.notFound);
  });

  it('sets the address of a user, ends their sessions, voids their links, and tells both addresses', async () => {
    const [alice, email] = [await app.user(), newAddress()];
    const { access_token, refresh_token } = await alice.logsIn();
    const change = { password: PASSWORD, new_email: newAddress() };
    await app.post('/api/v0/users/me/email', change).set('Authorization', `Bearer ${access_token}`).expect(202);
    const link = await receiveToken(app, server, change.new_email);
    for (const sent of [email.toUpperCase(), email]) {
      const { body } = await app.admin.patch(`/users/${alice.id}`, { email: sent }).expect(200);
      expect(body).toMatchObject({ id: alice.id, email, is_active: true, email_verified: false });
    }
    expectProblem(await app.me(access_token), problems.invalidAccessToken);
    expectProblem(await app.refresh(refresh_token), problems.invalidRefreshToken);
    expectProblem(await app.post('/api/v0/auth/email-verification/confirm', { token: link }), problems.invalidLink);
    expectProblem(await app.login(alice.email), problems.invalidCredentials);
    await app.login(email).expect(200);
    expect((await receive(app, server, email)).text).toContain(`${email} is the e-mail address of your account`);
    await receive(app, server, alice.email, 2);
    expect(server.to(alice.email).map(({ subject }) => subject)).toContain('Your e-mail address was changed');
    const rows = await recorded(app, { subject: alice.id, event: 'admin.user.updated' });
    expect(rows).toMatchObject([
      { actor: { door: 'admin' }, details: { after: { email: 'another' }, ended_sessions: 1 } },
    ]);
    expect(JSON.stringify(rows)).not.toContain('@');
  });

  it('verifies an address, or takes that back, and refuses one that is taken or malformed', async () => {
    const [bob, other] = [await app.user(), await app.user()];
    const { access_token } = await bob.logsIn();
    for (const email_verified of [true, true, false]) {
      const { body } = await app.admin.patch(`/users/${bob.id}`, { email_verified }).expect(200);
      expect(body).toMatchObject({ email: bob.email, email_verified });
      expect((await app.admin.get(`/users/${bob.id}`)).body).toEqual(body);
    }
    expect(await recorded(app, { subject: bob.id, event: 'admin.user.updated' })).toHaveLength(2);
    await app.me(access_token).expect(200);
    expectProblem(await app.admin.patch(`/users/${bob.id}`, { email: other.email }), problems.emailTaken);
    for (const email of ['nonsense', null, 'a@\uff45xample.org', '"bob"@example.org'])
      expectInvalid(await app.admin.patch(`/users/${bob.id}`, { email }), '/email');
    expectInvalid(await app.admin.patch(`/users/${bob.id}`, { email_verified: 'yes' }), '/email_verified');
    await app.me(access_token).expect(200);
  });

  it('keeps the second factors of a user who resets the password by mail to an address that was set', async () => {
    const owner = await FactorOwner.withTotp(app);
    const email = newAddress();
    await app.admin.patch(`/users/${owner.user.id}`, { email }).expect(200);
    await app.post('/api/v0/auth/password-reset', { email }).expect(202);
    const token = await receiveToken(app, server, email);
    await app.post('/api/v0/auth/password-reset/confirm', { token, new_password: PASSWORD }).expect(204);
    expectProblem(await app.login(email), problems.secondFactorRequired);
    expect((await app.admin.get(`/users/${owner.user.id}`)).body).toMatchObject({ email_verified: true });
    await app.admin.delete(`/users/${owner.user.id}/factors`).expect(204);
    await workOff(app);
    const isTold = () => server.to(email).some(({ subject }) => subject === 'A second factor was removed');
    await eventually('the user is told of the removal', isTold);
  });

  it('issues the whole link of a reset where the page for it is known', async () => {
    const { body } = await app.admin.post(`/users/${(await app.user()).id}/password-reset`).expect(201);
    const { token, link } = body as Record<string, string>;
    expect(link).toBe(`https://app.example.org/reset?from=mail#token=${token}`);
  });

  it('lists the sessions of a user and revokes them all', async () => {
    const alice = await app.user();
    const [one, two] = [await alice.logsIn(), await alice.logsIn()];
    await app.logout(one.refresh_token).expect(204);
    const list = async () => {
      const { body } = await app.admin.get(`/users/${alice.id}/sessions`).expect(200);
      return (body as { items: { end_reason: string | null }[] }).items.map(({ end_reason }) => end_reason);
    };
    expect(await list()).toEqual(['logout', null]);
    await app.admin.delete(`/users/${alice.id}/sessions`).expect(204);
    expect(await list()).toEqual(['logout', 'admin']);
    expectProblem(await app.refresh(two.refresh_token), problems.invalidRefreshToken);
    expectProblem(await app.admin.get('/users/1/sessions'), problems.notFound);
  });

  it('is returned by GET /api/v0/users/{id} to themself, to services and to the operator, and is a 404 to other users', async () => {
    const [alice, bob, service] = [await app.user(), await app.user(), await app.service('recipes', 'auth')];
    const { access_token } = await alice.logsIn();
    const bearer = { Authorization: `Bearer ${access_token}` };
    const path = `/api/v0/users/${alice.id}`;
    const mine = (await app.get(path).set(bearer).expect(200)).body as object;
    expect(mine).toMatchObject({ id: alice.id, email: alice.email, is_active: true });
    for (const headers of [service.headers, { 'X-Admin-Key': ADMIN_KEY }])
      expect((await app.get(path).set(headers).expect(200)).body).toEqual(mine);
    expect((await app.get('/users/me').set(bearer).expect(200)).body).toEqual(mine);
    for (const id of [bob.id, randomUUID(), 'not-a-uuid'])
      expectProblem(await app.get(`/api/v0/users/${id}`).set(bearer), problems.notFound);
    expectProblem(await app.get(`/api/v0/users/${randomUUID()}`).set(service.headers), problems.notFound);
    expectProblem(await app.get(path), problems.unauthenticated);
    expectProblem(await app.get(path).set('X-API-Key', 'a:b'), problems.unauthenticated);
    expectProblem(await app.get(path).set('X-Admin-Key', 'wrong').set(bearer), problems.invalidAdminKey);
  });
});

describe('the purge job', () => {
  const app = useApp({ variables: UNLEASED });
  const purge = async (...replicas: TestApp[]): Promise<number> => {
    const counts = await Promise.all(replicas.map(({ nest }) => nest.get(PurgeJob).purgeExpired()));
    return counts.reduce((sum, count) => sum + count);
  };

  it('deletes sessions and credentials whose retention has passed, in one replica at a time', async () => {
    const replica = await app.startReplica();
    const alice = await app.user();
    const { refresh_token } = await alice.logsIn();
    await app.logout(refresh_token).expect(204);
    const [revoked, live] = [await app.node(), await app.node()];
    await app.admin.delete(`/nodes/${revoked.nodeId}`).expect(204);
    const operator = await app.operator(['read']);
    await app.admin.delete(`/operators/${operator.id}`).expect(204);
    await app.database.query(
      `INSERT INTO signing_keys (id, kid, algorithm, state, created_at, retired_at)
       VALUES (gen_random_uuid(), 'retired', 'ES256', 'retired', now(), now()),
         (gen_random_uuid(), 'active', 'ES256', 'active', now(), NULL)`,
    );
    expect(await purge(app, replica)).toBe(0);
    app.clock.advance({ days: 31 });
    await alice.logsIn();
    expect(await purge(app, replica)).toBe(1);
    app.clock.advance({ days: 335 });
    // The session of the second login, the node, the operator and the signing key.
    expect(await purge(app, replica)).toBe(4);
    const ended = `SELECT id::text FROM operators UNION ALL SELECT kid FROM signing_keys`;
    expect(await app.database.query(ended)).toEqual([{ id: 'active' }]);
    await app.validateNode(live.header).expect(200);
    expectProblem(await app.admin.get(`/nodes/${revoked.nodeId}`), problems.notFound);
  });

  it('leaves the acts of a purged operator in the audit log, where its name finds them', async () => {
    const operator = await app.operator(['users']);
    await operator
      .as()
      .delete(`/users/${(await app.user()).id}`)
      .expect(204);
    await app.admin.delete(`/operators/${operator.id}`).expect(204);
    app.clock.advance({ days: 366 });
    expect(await purge(app)).toBe(1);
    expectProblem(await app.admin.get(`/operators/${operator.id}`), problems.notFound);
    expect(await recorded(app, { actor: `operator:${operator.name}` })).toMatchObject([
      { event: 'admin.user.deleted', actor: { id: operator.id, name: `operator:${operator.name}` } },
    ]);
  });

  it('keeps ended sessions no longer than the audit log', async () => {
    const short = await app.startReplica({ variables: { AUDIT_RETENTION_DAYS: '7' } });
    const { refresh_token } = await (await app.user()).logsIn();
    await app.logout(refresh_token).expect(204);
    app.clock.advance({ days: 8 });
    expect(await purge(app)).toBe(0);
    expect(await purge(short)).toBe(1);
  });

  it('deletes in batches until nothing is left', async () => {
    const alice = await app.user();
    await app.database.query(
      `INSERT INTO sessions (id, user_id, token_digest, generation, rotated_at, expires_at, absolute_expires_at, created_at)
       SELECT gen_random_uuid(), $1, '\\x00', 0, now(), now(), now(), now() FROM generate_series(1, 2500)`,
      [alice.id],
    );
    app.clock.advance({ days: 40 });
    expect(await purge(app)).toBe(2_500);
  });
});
