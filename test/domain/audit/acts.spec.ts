import { randomUUID } from 'node:crypto';
import type { Test as SupertestRequest } from 'supertest';
import { CountedRefusals } from '../../../src/domain/audit/counted-refusals.js';
import { AUDIT_EVENT_NAMES } from '../../../src/foundation/common/security-events.js';
import type { Verification } from '../../../src/domain/audit/seals/seal-verifier.js';
import { AuditJob, SealJob } from '../../../src/domain/maintenance/jobs.js';
import { APP_KEYS, type AppKeys } from '../../../src/domain/app-credentials/app-credentials.service.js';
import { NODE_KEYS, type NodeKeys } from '../../../src/domain/nodes/nodes.service.js';
import { OPERATOR_KEYS, type OperatorKeys } from '../../../src/domain/operators/operators.service.js';
import { ADMIN_KEY, MASTER_KEY, PASSWORD, SECRET_KEY } from '../../support/settings.js';
import type { TestApp, Tokens } from '../../support/test-app.js';
import { useCli } from '../../support/cli.js';
import { Browser, NAMED_HOST } from '../../support/console-browser.js';
import { useApp } from '../../support/use-app.js';
import { eventually } from '../../../tools/eventually.js';
import { receiveToken, useMailServer, workOff } from '../../support/mail-server.js';
import { accept, Home } from '../../support/home.js';
import { NEW_PASSWORD, Owner, WRONG } from '../../support/owner.js';
import { Authenticator } from '../second-factors/authenticator.js';
import { FactorOwner } from '../second-factors/owner.js';
import { recorded, type Item } from './record.js';
import { ES256, listKids, Operator } from '../signing-keys/support.js';
import { tell } from '../events/subscriber.js';

const ADMIN = { door: 'admin', id: null };
const ANONYMOUS = { door: 'open', id: null };
const SERVICE = { door: 'service', id: null };

describe('the audit log', () => {
  const secrets: string[] = [ADMIN_KEY, SECRET_KEY, MASTER_KEY, PASSWORD];
  const mail = useMailServer();
  const app = useApp({ variables: Object.assign(mail.variables, { CONSOLE: 'on' }) });
  const http = useCli(app);
  const { clock } = app;

  /** Expects that an act writes exactly one row, with the id of its request. */
  const expectRow = async (act: SupertestRequest, row: Partial<Item>): Promise<void> => {
    const callerId = randomUUID();
    const { headers } = await act.set('X-Request-Id', callerId);
    const rows = (await recorded(app)).filter((item) => item.request_id === headers['x-request-id']);
    const details = { ...row.details, caller_request_id: callerId };
    expect(rows).toMatchObject([{ address: '127.0.0.1', count: 1, ...row, details }]);
  };

  const expectNoRow = async (act: SupertestRequest): Promise<void> => {
    const { headers } = await act;
    expect((await recorded(app)).filter((item) => item.request_id === headers['x-request-id'])).toEqual([]);
  };

  it('has the request id of the service, also when a caller sends the id of another request', async () => {
    const victim = await app.user();
    const [{ request_id: taken }] = (await recorded(app, { subject: victim.id })) as [Item];
    await app.login(victim.email, 'wrong password').set('X-Request-Id', taken!).expect(401);
    const [failure] = (await recorded(app, { subject: victim.id })) as [Item];
    expect(failure).toMatchObject({ event: 'user.login.failed', details: { caller_request_id: taken } });
    expect(failure.request_id).not.toBe(taken);
  });

  it('has one row for each act of a user', async () => {
    const email = `${randomUUID()}@example.org`;
    const registration = app.post('/api/v0/auth/register', { email, password: PASSWORD });
    await expectRow(registration, { event: 'user.registered', details: { after: { is_active: true } } });
    const [{ subject }] = (await recorded(app, { event: 'user.registered' })) as [Item];
    const alice = { door: 'user', id: subject };
    await expectRow(app.login(email), { event: 'user.login.succeeded', actor: alice, subject });
    await expectRow(app.login(email, 'wrong password'), { event: 'user.login.failed', actor: ANONYMOUS, subject });

    const { refresh_token, access_token } = (await app.login(email)).body as Tokens;
    const successor = ((await app.refresh(refresh_token)).body as Tokens).refresh_token;
    secrets.push(refresh_token, access_token, successor);
    await expectNoRow(app.refresh(successor));
    await app.database.query("UPDATE sessions SET rotated_from = '192.0.2.7' WHERE user_id = $1", [subject]);
    const elsewhere = { event: 'session.refresh.repeated_elsewhere', actor: ANONYMOUS, subject };
    await expectRow(app.refresh(successor), elsewhere);
    await expectNoRow(app.refresh(successor));
    clock.advance({ seconds: 61 });
    await expectRow(app.refresh(refresh_token), { event: 'session.refresh.reused', actor: ANONYMOUS, subject });
    await expectNoRow(app.refresh(refresh_token));

    const again = (await app.login(email)).body as Tokens;
    const ended = { event: 'session.ended', actor: alice, subject };
    await expectRow(app.logout(again.refresh_token), ended);
    await expectNoRow(app.logout(again.refresh_token));
    const bearer = { Authorization: `Bearer ${((await app.login(email)).body as Tokens).access_token}` };
    await expectRow(app.post('/api/v0/auth/logout').set(bearer), ended);
  });

  it('has one row for each act of an owner', async () => {
    const owner = await Owner.of(app);
    const about = { actor: { door: 'user', id: owner.user.id }, subject: owner.user.id };
    const id = await (await owner.elsewhere()).sessionId();
    const ended = { ...about, event: 'session.ended' };
    await expectRow(owner.end(id), { ...ended, details: { session_id: id, reason: 'owner' } });
    await expectNoRow(owner.end(id));
    await owner.elsewhere();
    await expectRow(owner.endOthers(), { ...ended, details: { reason: 'owner' } });
    await expectNoRow(owner.endOthers());
    await expectRow(owner.changePassword(WRONG), { ...about, event: 'user.login.failed', actor: ANONYMOUS });
    const changed = { ...about, event: 'user.password.changed', details: { ended_sessions: 0 } };
    await expectRow(owner.changePassword(), changed);
    await expectRow(owner.deleteAccount(NEW_PASSWORD), { ...about, event: 'user.deleted' });
    secrets.push(WRONG, NEW_PASSWORD, owner.tokens.access_token);
  });

  it('has one row for each act on a household, and one more for the person who joins or whose code ends', async () => {
    const owner = await Owner.of(app);
    const creation = owner.as(app.post('/api/v0/households', { name: 'home' }));
    const actor = { door: 'user', id: owner.user.id };
    await expectRow(creation, { event: 'household.created', actor, details: { after: { name: 'home' } } });
    const home = await Home.of(app, owner);
    const about = { actor, subject: home.id };
    const renamed = { before: { name: 'home' }, after: { name: 'house' } };
    await expectRow(home.rename(owner, 'house'), { ...about, event: 'household.renamed', details: renamed });
    await expectNoRow(home.rename(owner, 'house').expect(200));
    await expectRow(home.invite(), { ...about, event: 'household.invitation.issued' });
    const [guest, code] = [await Owner.of(app), await home.code()];
    const { headers } = await accept(app, guest, code).expect(200);
    const joined = (await recorded(app)).filter((item) => item.request_id === headers['x-request-id']);
    const asGuest = { actor: { door: 'user', id: guest.user.id }, subject: home.id };
    expect(joined.sort((one, other) => (one.event < other.event ? -1 : 1))).toMatchObject([
      { ...asGuest, event: 'household.invitation.used', details: { issued_by: owner.user.id } },
      { ...asGuest, event: 'household.member.added', details: { user_id: guest.user.id, after: { role: 'member' } } },
    ]);
    const whom = { user_id: guest.user.id };
    const [member, admin] = [{ role: 'member' }, { role: 'admin' }];
    const promoted = { ...whom, before: member, after: admin };
    await expectRow(home.setRole(owner, guest, 'admin'), {
      ...about,
      event: 'household.member.changed',
      details: promoted,
    });
    await expectNoRow(home.setRole(owner, guest, 'admin').expect(200));
    const { id } = (await home.invite(guest).expect(201)).body as { id: string };
    const removal = await home.remove(owner, guest).expect(204);
    const ended = (await recorded(app)).filter((item) => item.request_id === removal.headers['x-request-id']);
    expect(ended.sort((one, other) => (one.event < other.event ? -1 : 1))).toMatchObject([
      { ...about, event: 'household.invitation.cancelled', details: { invitation_id: id } },
      { ...about, event: 'household.member.removed', details: { ...whom, before: admin } },
    ]);
    const leaver = await home.member();
    const asLeaver = { actor: { door: 'user', id: leaver.user.id }, subject: home.id };
    await expectRow(home.leave(leaver), { ...asLeaver, event: 'household.member.left' });
    const alone = await Home.of(app, owner);
    const deletion = await alone.deleteBy(owner).expect(204);
    const gone = (await recorded(app)).filter((item) => item.request_id === deletion.headers['x-request-id']);
    expect(gone.sort((one, other) => (one.event < other.event ? -1 : 1))).toMatchObject([
      { actor, subject: alone.id, event: 'household.deleted' },
      {
        ...{ actor, subject: alone.id, event: 'household.member.removed' },
        details: { user_id: owner.user.id, before: admin },
      },
    ]);
    secrets.push(code);
  });

  it('has one row for each act of an operator, with the values before and after', async () => {
    const household = { household_id: randomUUID(), room: 'hall', name: 'lamp' };
    const registered = { event: 'admin.node.issued', actor: ADMIN, details: { after: household } };
    await expectRow(app.admin.post('/nodes', household), registered);
    const { nodeId, apiKey } = await app.node();
    const path = `/nodes/${nodeId}`;
    const change = (act: string, before: object, after: object): Partial<Item> => ({
      event: `admin.node.${act}`,
      actor: ADMIN,
      subject: nodeId,
      details: { before, after },
    });
    const made = { room: 'kitchen', name: 'speaker', expires_at: null };
    await expectRow(app.admin.patch(path, { room: 'attic' }), change('updated', made, { ...made, room: 'attic' }));
    await expectNoRow(app.admin.patch(path, {}).expect(200));
    await expectNoRow(app.admin.patch(path, { room: 'attic', expires_at: null }).expect(200));
    const moment: unknown = expect.any(String);
    const rotation = [
      { rotated_at: null, previous_key_expires_at: null },
      { rotated_at: moment, previous_key_expires_at: moment },
    ] as const;
    await expectRow(app.admin.post(`${path}/rotate`), change('rotated', ...rotation));
    const own = await app.node();
    await expectRow(app.post('/api/v0/nodes/me/rotate').set('X-API-Key', own.header), {
      event: 'node.rotated',
      actor: { door: 'node', id: own.nodeId },
      subject: own.nodeId,
    });
    await expectRow(app.admin.delete(path), change('revoked', { revoked_at: null }, { revoked_at: moment }));
    await expectNoRow(app.admin.delete(path));
    await expectNoRow(app.admin.patch(path, { room: 'hall' }));
    await expectNoRow(app.admin.post(`${path}/rotate`));

    const enrolments = '/enrolments';
    const issued = { event: 'admin.enrolment.issued', actor: ADMIN, details: household };
    await expectRow(app.admin.post(enrolments, household), issued);
    const { body } = await app.admin.post(enrolments, household);
    const { enrolment_id, code } = body as { enrolment_id: string; code: string };
    await expectRow(app.post('/api/v0/nodes/enrol', { code }), {
      event: 'node.enrolled',
      actor: ANONYMOUS,
      details: { enrolment_id, after: household },
    });
    await expectRow(app.post('/api/v0/nodes/enrol', { code }), { event: 'node.enrolment.reused', actor: ANONYMOUS });
    const { body: other } = await app.admin.post(enrolments, household);
    const open = `${enrolments}/${(other as { enrolment_id: string }).enrolment_id}`;
    await expectRow(app.admin.delete(open), { event: 'admin.enrolment.cancelled', actor: ADMIN });
    await expectNoRow(app.admin.delete(open));
    secrets.push(code);

    const pair = { caller: randomUUID(), target: 'ocr' };
    const event = { event: 'admin.app_credential.issued', actor: ADMIN, details: { after: pair } };
    await expectRow(app.admin.post('/app-credentials', pair), event);
    await expectNoRow(app.admin.post('/app-credentials', pair));
    const { appId, appKey } = await app.service();
    const credential = `/app-credentials/${appId}`;
    for (const [act, call] of [
      ['rotated', app.admin.post(`${credential}/rotate`)],
      ['rotation_finished', app.admin.post(`${credential}/finish-rotation`)],
      ['updated', app.admin.patch(credential, { scopes: ['documents:read'] })],
      ['revoked', app.admin.delete(credential)],
    ] as const)
      await expectRow(call, { event: `admin.app_credential.${act}`, subject: appId });
    secrets.push(apiKey, appKey);
  });

  it('has one row for each link that is mailed or handed over, and for each that is confirmed', async () => {
    const alice = await app.user();
    const about = { subject: alice.id };
    const asAlice = { ...about, actor: { door: 'user', id: alice.id } };
    const request = app.post('/api/v0/auth/email-verification', { email: alice.email });
    const { headers } = await request.expect(202);
    const token = await receiveToken(app, mail.server, alice.email);
    await eventually('it is recorded', async () => (await recorded(app, { event: 'user.mail.sent' })).length === 1);
    expect(await recorded(app, { event: 'user.mail.sent' })).toMatchObject([
      { ...about, actor: SERVICE, request_id: headers['x-request-id'], details: { kind: 'email_verification' } },
    ]);
    expect(await recorded(app, { actor: 'service' })).toHaveLength(1);
    const verification = app.post('/api/v0/auth/email-verification/confirm', { token });
    await expectRow(verification, { ...asAlice, event: 'user.email.verified' });

    const bearer = { Authorization: `Bearer ${(await alice.logsIn()).access_token}` };
    const email = `${randomUUID()}@example.org`;
    const change = app.post('/api/v0/users/me/email', { password: PASSWORD, new_email: email }).set(bearer);
    await expectRow(change, { ...asAlice, event: 'user.email.change_requested' });
    const changeToken = await receiveToken(app, mail.server, email);
    const confirmation = app.post('/api/v0/auth/email-verification/confirm', { token: changeToken });
    await expectRow(confirmation, { ...asAlice, event: 'user.email.changed' });

    const issue = app.admin.post(`/users/${alice.id}/password-reset`);
    await expectRow(issue, { ...about, event: 'admin.user.password_reset_issued', actor: ADMIN });
    const { token: resetToken } = (await app.admin.post(`/users/${alice.id}/password-reset`)).body as { token: string };
    const reset = () => app.post('/api/v0/auth/password-reset/confirm', { token: resetToken, new_password: PASSWORD });
    const details = { token_from: 'operator', ended_sessions: 1 };
    await expectRow(reset(), { ...asAlice, event: 'user.password.reset', details });
    await expectNoRow(reset());

    mail.server.refuse('rcpt', 550);
    await app.post('/api/v0/auth/password-reset', { email }).expect(202);
    await workOff(app);
    await eventually('it is given up', async () =>
      (await recorded(app, { event: 'user.mail.failed' })).some(({ details }) => details.kind === 'password_reset'),
    );
    mail.server.accept();
    secrets.push(token, changeToken, resetToken);
  });

  it('counts a user who asks for other accounts, whether or not they exist, in one row', async () => {
    const [alice, bob] = [await app.user(), await app.user()];
    const bearer = { Authorization: `Bearer ${(await alice.logsIn()).access_token}` };
    const read = (id: string) => app.get(`/api/v0/users/${id}`).set(bearer);
    const counted = { event: 'user.access.refused', actor: { door: 'user', id: alice.id }, subject: alice.id };
    const { headers } = await read(bob.id).expect(404);
    await read(randomUUID()).expect(404);
    await read('bob').expect(404);
    // The route writes nothing, so that no caller makes it wait for PostgreSQL.
    expect(await recorded(app, { event: 'user.access.refused', subject: alice.id })).toEqual([]);
    await app.nest.get(CountedRefusals, { strict: false }).flush();
    const request_id = headers['x-request-id'];
    const rows = await recorded(app, { event: 'user.access.refused', subject: alice.id });
    expect(rows).toMatchObject([{ ...counted, request_id, count: 2, details: { reasons: { other_account: 2 } } }]);
  });

  it('has one row for each act of an operator on an operator, and names the operator that acted', async () => {
    const manager = await app.operator(['operators']);
    const actor = { door: 'admin', id: manager.id, name: `operator:${manager.name}` };
    const name = randomUUID();
    const added = { event: 'admin.operator.issued', actor, details: { after: { name, scopes: ['operators'] } } };
    await expectRow(manager.as().post('/operators', { name, scopes: ['operators'] }), added);
    await expectNoRow(manager.as().post('/operators', { name, scopes: ['operators'] }));
    const other = await app.operator(['operators']);
    const path = `/operators/${other.id}`;
    const about = { actor, subject: other.id };
    const expires_at = '2099-01-01T00:00:00.000Z';
    await expectRow(manager.as().patch(path, { expires_at }), { ...about, event: 'admin.operator.updated' });
    await expectNoRow(manager.as().patch(path, { expires_at }).expect(200));
    await expectRow(manager.as().post(`${path}/rotate`), { ...about, event: 'admin.operator.rotated' });
    const finished = { ...about, event: 'admin.operator.rotation_finished' };
    await expectRow(manager.as().post(`${path}/finish-rotation`), finished);
    await expectNoRow(manager.as().post(`${path}/finish-rotation`).expect(204));
    await expectRow(manager.as().delete(path), { ...about, event: 'admin.operator.revoked' });
    await expectNoRow(manager.as().delete(path).expect(204));
    const refused = { event: 'admin.scope.refused', actor, subject: manager.id, details: { reasons: { users: 1 } } };
    await expectRow(manager.as().get('/users').expect(403), refused);
    await app.nest.get<OperatorKeys>(OPERATOR_KEYS, { strict: false }).flushLastUsed();
    expect(await recorded(app, { event: 'operator.first_used' })).toMatchObject([{ actor, subject: manager.id }]);
    secrets.push(manager.key, other.key);
  });

  it('has a row for the expired credential that a new one replaces', async () => {
    const pair = { caller: randomUUID(), target: 'ocr' };
    const expires_at = new Date(clock.now().getTime() + 1_000).toISOString();
    const { body } = await app.admin.post('/app-credentials', { ...pair, expires_at }).expect(201);
    clock.advance({ seconds: 2 });
    const { headers } = await app.admin.post('/app-credentials', pair).expect(201);
    const rows = (await recorded(app)).filter((item) => item.request_id === headers['x-request-id']);
    rows.sort((one, other) => (one.event < other.event ? -1 : 1));
    const details = { before: { revoked_at: null }, after: { revoked_at: expect.any(String) as string } };
    expect(rows).toMatchObject([
      { event: 'admin.app_credential.issued' },
      { event: 'admin.app_credential.revoked', actor: ADMIN, subject: (body as { app_id: string }).app_id, details },
    ]);
  });

  it('has one row for each act of an operator on a user, with the number of sessions that it ended', async () => {
    const person = { email: `${randomUUID()}@example.org`, password: PASSWORD };
    await expectRow(app.admin.post('/users', person), { event: 'admin.user.created', actor: ADMIN });
    await expectNoRow(app.admin.post('/users', person));
    const alice = await app.user();
    const about = { actor: ADMIN, subject: alice.id };
    await alice.logsIn();
    await alice.logsIn();
    await app.login(alice.email, 'wrong password').expect(401);
    const throttles = `/users/${alice.id}/throttles`;
    await expectRow(app.admin.delete(throttles), { ...about, event: 'admin.user.throttles_removed', count: 2 });
    await expectNoRow(app.admin.delete(throttles).expect(204));
    const sessions = `/users/${alice.id}/sessions`;
    await expectRow(app.admin.delete(sessions), { ...about, event: 'admin.user.sessions_revoked', count: 2 });
    await expectNoRow(app.admin.delete(sessions).expect(204));
    await expectNoRow(app.admin.patch(`/users/${alice.id}`, { is_active: true }).expect(200));
    await alice.logsIn();
    const details = { before: { is_active: true }, after: { is_active: false }, ended_sessions: 1 };
    const disabled = { ...about, event: 'admin.user.updated', details };
    await expectRow(app.admin.patch(`/users/${alice.id}`, { is_active: false }), disabled);
    await expectNoRow(app.admin.patch(`/users/${alice.id}`, { is_active: false }).expect(200));
    await expectRow(app.admin.delete(`/users/${alice.id}`), { ...about, event: 'admin.user.deleted' });
    await expectNoRow(app.admin.delete(`/users/${alice.id}`));
  });

  it('has one row for each change of the second factors of a user', async () => {
    const owner = await FactorOwner.withTotp(app);
    await owner.registers();
    const about = { actor: { door: 'user', id: owner.user.id }, subject: owner.user.id };
    const { body } = await owner.get('/passkeys');
    const { id } = (body as { items: [{ id: string }] }).items[0];
    const details = { passkey_id: id };
    const rename = app.patch(`/api/v0/users/me/passkeys/${id}`, { name: 'old phone' });
    const bearer = { Authorization: `Bearer ${owner.tokens.access_token}` };
    await expectRow(rename.set(bearer), { ...about, event: 'user.passkey.renamed', details });
    const remove = owner.post(`/passkeys/${id}/remove`, await owner.proof());
    await expectRow(remove, { ...about, event: 'user.passkey.removed', details });
    const code = owner.code();
    const replace = owner.post('/recovery-codes', { password: PASSWORD, code });
    await expectRow(replace, { ...about, event: 'user.recovery_codes.replaced' });
    clock.advance({ seconds: 60 });
    const { challenge } = await owner.isChallenged();
    await owner.answers(challenge, 'totp', { code }).expect(401);
    const withoutTotp = owner.post('/totp/remove', { password: PASSWORD, code: owner.code() });
    await expectRow(withoutTotp, { ...about, event: 'user.totp.removed' });
    const other = await FactorOwner.withTotp(app);
    const recovery = await other.isChallenged();
    await other.answers(recovery.challenge, 'recovery_code', { code: other.recoveryCodes[0] }).expect(200);
    const removal = app.admin.delete(`/users/${other.user.id}/factors`);
    await expectRow(removal, { event: 'admin.user.factors_removed', actor: ADMIN, subject: other.user.id });
    secrets.push(owner.secret, other.secret, ...owner.recoveryCodes, ...other.recoveryCodes);
  });

  it('has one row for the first use of a credential, also when two replicas record it concurrently', async () => {
    const replica = await app.startReplica();
    const [node, service] = [await app.node(), await app.service()];
    for (let use = 0; use < 2; use += 1) {
      for (const each of [app, replica]) {
        await each.validateNode(node.header).expect(200);
        await each.validateApp(service.headers).expect(200);
      }
      const stores = [app, replica].flatMap(({ nest }) => [nest.get<AppKeys>(APP_KEYS), nest.get<NodeKeys>(NODE_KEYS)]);
      await Promise.all(stores.map((store) => store.flushLastUsed()));
      clock.advance({ minutes: 1 });
    }
    const used = { event: 'node.first_used', actor: { door: 'node', id: node.nodeId }, count: 1 };
    expect((await recorded(app, { subject: node.nodeId }))[0]).toMatchObject(used);
    expect(await recorded(app, { subject: node.nodeId, event: 'node.first_used' })).toMatchObject([used]);
    expect(await recorded(app, { actor: service.appId })).toMatchObject([{ event: 'app.first_used' }]);
    await replica.stop();
  });

  it('has a row for each login and logout of an operator at the console', async () => {
    const browser = await Browser.logIn(app);
    await browser.send('/console/logout', await browser.readForm('/console', '/console/logout')).expect(303);
    const rows = await recorded(app, { event: 'admin.console.*', subject: 'admin' });
    expect(rows).toMatchObject([
      { event: 'admin.console.logged_out', actor: ADMIN, subject: 'admin' },
      { event: 'admin.console.logged_in', actor: ADMIN, subject: 'admin' },
    ]);
    const ofRequest = await recorded(app, { request_id: rows[0]!.request_id!, address: rows[0]!.address! });
    expect(ofRequest).toEqual([rows[0]]);
    const operator = await app.operator(['read']);
    const foreign = (await Browser.logIn(app, operator.key)).send(
      '/console/nodes',
      {},
      { Origin: 'https://evil.example' },
    );
    const refused = { event: 'admin.console.refused', actor: ANONYMOUS, subject: operator.id };
    await expectRow(foreign.expect(403), { ...refused, details: { reasons: { origin: 1 } } });
    await (await Browser.logIn(app)).sendKey(operator.key).expect(303);
    const [last] = await recorded(app, { event: 'admin.console.logged_out' });
    expect(last).toMatchObject({ actor: { door: 'admin', id: operator.id }, subject: 'admin' });
  });

  it('has a row for each passkey of an operator that is added or removed', async () => {
    const operator = await app.operator(['read']);
    const browser = await Browser.logIn(app, operator.key, NAMED_HOST);
    expect((await browser.addPasskey(new Authenticator())).status).toBe(303);
    const about = {
      subject: operator.id,
      actor: { door: 'admin', id: operator.id, name: `operator:${operator.name}` },
    };
    const [added] = await recorded(app, { event: 'operator.passkey.added' });
    expect(added).toMatchObject({ ...about, details: { passkey_id: expect.any(String) } });
    const path = `/operators/${operator.id}/passkeys/${String(added?.details.passkey_id)}`;
    const removed = { event: 'operator.passkey.removed', actor: ADMIN, subject: operator.id };
    await expectRow(app.admin.delete(path), { ...removed, details: { passkey_id: added?.details.passkey_id } });
    await expectNoRow(app.admin.delete(path).expect(404));
  });

  it('has a row for the start and the end of an import, and one for an export', async () => {
    const cli = http.with({ DATABASE_URL: app.database.url });
    const hash = '$2y$05$ojPk9YnUuv2.JYqFWjuUoeABv8G9Dc3bYyj8pxjz7HWQZhbC04yxq';
    const line = JSON.stringify({ email: `${randomUUID()}@example.org`, password_hash: hash });
    await cli.withInput(line).ok('users', 'import', '-');
    await cli.run('users', 'export', '--yes');
    const rows = await recorded(app, { actor: 'cli' });
    expect(rows).toMatchObject([
      { event: 'users.exported', details: { accounts: expect.any(Number) } },
      { event: 'users.imported', details: { imported: 1, existing: 0, refused: 0 } },
      { event: 'users.import_started' },
    ]);
    expect(rows[1]!.subject).toBe(rows[2]!.subject);
  });

  it('has a row for a finding of "audit verify" that an operator acknowledged', async () => {
    await app.nest.get(SealJob).sealNewRows();
    const cli = http.with({
      DATABASE_URL: app.database.url,
      AUDIT_SEAL_KEY: 'another-Kq3vYt8sLw2nXz5rBd7fGh1jMp4cQe6u',
    });
    const { stdout } = await cli.run('audit', 'verify', '--json');
    const { name } = (JSON.parse(stdout) as Verification).findings[0]!;
    await cli.ok('audit', 'acknowledge', name, '--reason', 'the key is lost', '--as', 'alice');
    expect(await recorded(app, { subject: name })).toMatchObject([
      {
        event: 'audit.finding.acknowledged',
        actor: { door: 'cli', id: null },
        subject: name,
        details: { reason: 'the key is lost', operator: 'alice' },
      },
    ]);
  });

  it('has one row for each act on a subscription to events, and for a deletion that a service acknowledges', async () => {
    const { caller: service, headers } = await app.service(undefined, 'auth');
    const [path, types] = [`/event-subscriptions/${service}`, ['user.deleted']];
    const row = (act: string) => ({ event: `admin.event_subscription.${act}`, actor: ADMIN, subject: service });
    await expectRow(app.admin.put(path, { types }), { ...row('set'), details: { types, from: 'now' } });
    await expectNoRow(app.admin.put(path, { types }));
    const { id } = await app.user();
    await app.admin.delete(`/users/${id}`).expect(204);
    await tell(app);
    const read = (body: object = {}) => app.post('/internal/events', { consumer: 'one', ...body }).set(headers);
    const { cursor } = (await read()).body.events[0];
    await expectRow(read({ after: cursor }), {
      event: 'user.deletion.acknowledged',
      subject: id,
      details: { service },
    });
    await expectNoRow(read({ after: cursor }));
    await expectRow(app.admin.post(`${path}/rewind`, {}), row('rewound'));
    await expectRow(app.admin.post(`${path}/skip`, { all: true }), row('skipped'));
    await expectNoRow(app.admin.post(`${path}/skip`, { all: true }));
    await expectRow(app.admin.post('/event-subscriptions/reset'), row('reset'));
    await expectRow(app.admin.delete(path), row('removed'));
  });

  it('returns every event that its filter accepts', async () => {
    await app.get('/api/v0/admin/users').set('X-Admin-Key', 'a wrong key').expect(401);
    const { nodeId, header } = await app.node();
    await app.admin.patch(`/nodes/${nodeId}`, { targets: ['ocr'] }).expect(200);
    await app.validateNode(header).expect(401);
    const { headers } = await app.service();
    await app.post('/internal/validate-app', { target: 'ocr' }).set(headers).expect(401);
    await app.nest.get(CountedRefusals).flush();
    const replica = await app.startReplica({ variables: ES256 });
    await exchangeTokens(replica);
    const [kid] = await listKids(replica);
    clock.advance({ minutes: 30 });
    await new Operator(replica).retire(kid!);
    await new Operator(replica).revoke(kid!);
    await replica.stop();
    await app.nest.get(AuditJob).maintainAuditLog();
    const missing: string[] = [];
    for (const event of AUDIT_EVENT_NAMES) {
      const items = await recorded(app, { event });
      if (items.length === 0 || items.some((item) => item.event !== event)) missing.push(event);
    }
    expect(missing).toEqual([]);
  });

  it('contains no secret, no digest and no e-mail address of a user', async () => {
    const rows = await app.database.query('SELECT * FROM audit_events');
    const text = JSON.stringify(rows);
    expect(rows.length).toBeGreaterThan(25);
    for (const secret of secrets) expect(text).not.toContain(secret);
    expect(text).not.toMatch(/pa_(rt|app|node|reset|email|admin)_|\$2b\$|eyJ[\w-]+\.[\w-]|digest|hash|@/);
  });
});

/** Acts for a user at a service that allows it, and at one that does not. */
async function exchangeTokens(replica: TestApp): Promise<void> {
  const { access_token: subject_token } = await (await replica.user()).logsIn();
  const { headers } = await replica.service('web', 'auth');
  const pair = { caller: 'web', target: 'ocr', scopes: ['documents:read'], for_users: true };
  await replica.admin.post('/app-credentials', pair).expect(201);
  const subject_token_type = 'urn:ietf:params:oauth:token-type:access_token';
  const form = { grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange', subject_token, subject_token_type };
  const ask = (audience: string) =>
    replica
      .post('/internal/token')
      .set(headers)
      .type('form')
      .send({ ...form, audience });
  await ask('ocr').expect(200);
  await ask('tts').expect(400);
  await replica.nest.get(CountedRefusals).flush();
}
