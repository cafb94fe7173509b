import { randomUUID } from 'node:crypto';
import type { Test as SupertestRequest } from 'supertest';
import { Client } from 'pg';
import { DataSource } from 'typeorm';
import type { SecurityEvent } from '../../../src/foundation/common/security-events.js';
import { PASSWORD, UNLEASED } from '../../support/settings.js';
import type { Tokens } from '../../support/test-app.js';
import { NEW_PASSWORD, Owner, WRONG } from '../../support/owner.js';
import { useApp } from '../../support/use-app.js';
import { toErrorFields } from '../../../src/foundation/logging/log.js';
import { createTestDatabase, type TestDatabase } from '../../support/test-database.js';

describe('security events', () => {
  const app = useApp({ variables: UNLEASED });
  const { clock } = app;

  /** Expects that an act logs exactly one event, with the id of its request. */
  const expectEvent = async (event: SecurityEvent, act: SupertestRequest, fields: object = {}): Promise<void> => {
    const callerId = randomUUID();
    const { headers } = await act.set('X-Request-Id', callerId);
    const ofRequest = app.log.lines.filter((line) => line.request_id === headers['x-request-id']);
    const recorded = ofRequest.filter((line) => line.event !== undefined);
    expect(recorded).toMatchObject([{ event, address: '127.0.0.1', caller_request_id: callerId, ...fields }]);
  };

  it('record what users do', async () => {
    const email = `${randomUUID()}@example.org`;
    await expectEvent('user.registered', app.post('/api/v0/auth/register', { email, password: PASSWORD }));
    await expectEvent('user.login.succeeded', app.login(email), { level: 'info' });
    await expectEvent('user.login.failed', app.login(email, 'wrong password'), {
      reason: 'wrong_password',
      level: 'warn',
    });
    await expectEvent('user.login.failed', app.login('unknown@example.org'), { reason: 'unknown' });
    const { body } = await app.login(email);
    const { refresh_token, access_token } = body as Tokens;
    await expectEvent('session.refreshed', app.refresh(refresh_token), { reason: 'rotated' });
    await expectEvent('session.refreshed', app.refresh(refresh_token), { reason: 'repeated' });
    clock.advance({ seconds: 61 });
    await expectEvent('session.refresh.reused', app.refresh(refresh_token), { level: 'warn' });
    await expectEvent('session.refresh.refused', app.refresh(refresh_token), { reason: 'unknown' });
    await expectEvent('user.token.refused', app.me(access_token), { reason: 'session_ended' });
    await expectEvent('user.token.refused', app.get('/api/v0/users/me'), { reason: 'no_credential' });
    const again = (await app.login(email)).body as Tokens;
    await expectEvent('session.ended', app.logout(again.refresh_token), { reason: 'logout' });
  });

  it('record what owners do', async () => {
    const owner = await Owner.of(app);
    await owner.elsewhere();
    const user_id = owner.user.id;
    await expectEvent('user.password.refused', owner.changePassword(WRONG), {
      reason: 'wrong_password',
      level: 'warn',
      user_id,
    });
    await expectEvent('session.ended', owner.endOthers(), { reason: 'owner', count: 1, user_id });
    await expectEvent('user.password.changed', owner.changePassword(), { level: 'info', count: 0, user_id });
    await expectEvent('user.deleted', owner.deleteAccount(NEW_PASSWORD), { level: 'info', user_id });
  });

  it('record failed validations and refused operators', async () => {
    const node = await app.node();
    await expectEvent('node.validation.failed', app.validateNode(`${node.nodeId}:wrong`), {
      reason: 'wrong_key',
      node_id: node.nodeId,
    });
    await expectEvent('node.validation.failed', app.validateNode('x'), { reason: 'malformed' });
    const service = await app.service();
    await expectEvent('app.validation.failed', app.validateApp(service.headers, { target: 'another' }), {
      reason: 'other_target',
    });
    await expectEvent('app.validation.failed', app.validateApp({}), { reason: 'not_accepted' });
    await expectEvent('admin.key.refused', app.get('/api/v0/admin/users').set('X-Admin-Key', 'wrong'), {
      reason: 'wrong_key',
    });
  });

  it('record every act of an operator', async () => {
    const [alice, node, service] = [await app.user(), await app.node(), await app.service()];
    const household = { household_id: randomUUID(), room: 'hall', name: 'lamp' };
    await expectEvent('admin.node.issued', app.admin.post('/nodes', household));
    await expectEvent('admin.node.updated', app.admin.patch(`/nodes/${node.nodeId}`, { room: 'attic' }));
    await expectEvent('admin.node.rotated', app.admin.post(`/nodes/${node.nodeId}/rotate`));
    await expectEvent('admin.node.revoked', app.admin.delete(`/nodes/${node.nodeId}`), { node_id: node.nodeId });
    const pair = { caller: randomUUID(), target: 'ocr' };
    await expectEvent('admin.app_credential.issued', app.admin.post('/app-credentials', pair));
    const scopes = ['documents:read'];
    await expectEvent('admin.app_credential.updated', app.admin.patch(`/app-credentials/${service.appId}`, { scopes }));
    await expectEvent('admin.app_credential.rotated', app.admin.post(`/app-credentials/${service.appId}/rotate`));
    await expectEvent('admin.app_credential.revoked', app.admin.delete(`/app-credentials/${service.appId}`));
    const person = { email: `${randomUUID()}@example.org`, password: PASSWORD };
    await expectEvent('admin.user.created', app.admin.post('/users', person));
    await expectEvent('admin.user.updated', app.admin.patch(`/users/${alice.id}`, { is_active: false }), {
      reason: 'disabled',
    });
    await expectEvent('admin.user.sessions_revoked', app.admin.delete(`/users/${alice.id}/sessions`));
    await expectEvent('admin.user.deleted', app.admin.delete(`/users/${alice.id}`), { user_id: alice.id });
  });
});

const failureOf = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => undefined,
    (error: unknown) => error,
  );

describe('the error of a log line', () => {
  let database: TestDatabase;
  const CANARY = 'canary-in-a-value';

  beforeAll(async () => {
    database = await createTestDatabase({ isEmpty: true });
  });
  afterAll(() => database.drop());

  it('has the SQLSTATE of a statement that PostgreSQL cancelled, without its message', async () => {
    const source = await new DataSource({ type: 'postgres', url: database.url }).initialize();
    const cancelled = await failureOf(
      source.transaction(async (transaction) => {
        await transaction.query('SET LOCAL statement_timeout = 1');
        await transaction.query(`SELECT pg_sleep(60), '${CANARY}'`);
      }),
    );
    const invalid = await failureOf(source.query('SELECT $1::integer', [CANARY]));
    await source.destroy();
    expect(toErrorFields(cancelled)).toMatchObject({ name: 'QueryFailedError', code: '57014' });
    expect(toErrorFields(new Error('outer', { cause: cancelled }))).toMatchObject({ name: 'Error', code: '57014' });
    expect(toErrorFields(invalid)).toMatchObject({ code: '22P02' });
    expect(JSON.stringify([toErrorFields(cancelled), toErrorFields(invalid)])).not.toContain(CANARY);
  });

  it('names a timeout of the driver, which has no code', async () => {
    const client = new Client({ connectionString: database.url, query_timeout: 1 });
    await client.connect();
    const unanswered = await failureOf(client.query('SELECT pg_sleep(60)'));
    await client.end();
    expect(toErrorFields(unanswered)).toMatchObject({ name: 'Error', code: 'STATEMENT_TIMEOUT' });
  });

  it.each([
    ['timeout exceeded when trying to connect', 'POOL_TIMEOUT'],
    ['Connection terminated due to connection timeout', 'CONNECT_TIMEOUT'],
    ['Connection terminated unexpectedly', 'CONNECTION_TERMINATED'],
    ['of another kind', undefined],
  ])('%s: the code is %s', (message, code) => {
    expect(toErrorFields(new Error(message)).code).toBe(code);
  });

  it('has the code of the first address of a host that cannot be reached', () => {
    const refused = Object.assign(new Error('refused'), { code: 'ECONNREFUSED' });
    expect(toErrorFields(new AggregateError([refused, refused])).code).toBe('ECONNREFUSED');
  });
});
