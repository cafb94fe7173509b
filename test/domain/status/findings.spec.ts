import { randomUUID } from 'node:crypto';
import { CountedRefusals } from '../../../src/domain/audit/counted-refusals.js';
import { HourlyCounts } from '../../../src/domain/status/hourly-counts.js';
import { VerifierPolls } from '../../../src/domain/status/verifier-polls.js';
import { recorded } from '../audit/record.js';
import { eventually } from '../../../tools/eventually.js';
import { useAppPerTest } from '../../support/use-app.js';
import { tell } from '../events/subscriber.js';

interface Finding {
  readonly check: string;
  readonly severity: string;
  readonly subject: { readonly type: string; readonly id: string; readonly name: string } | null;
  readonly detail: string;
}
interface Report {
  readonly at: string;
  readonly looked_at: readonly string[];
  readonly items: readonly Finding[];
}

describe('GET /api/v0/admin/findings', () => {
  const app = useAppPerTest({ settings: { adminKeyLimitPerAddress: { points: 2, seconds: 60 } } });
  const report = async (admin = app.admin): Promise<Report> =>
    (await admin.get('/findings').expect(200)).body as Report;
  const find = async (check: string): Promise<readonly Finding[]> =>
    (await report()).items.filter((finding) => finding.check === check);
  const guess = async (emails: readonly string[]): Promise<void> => {
    for (const email of emails) await app.login(email, 'wrong password').expect(401);
  };

  it('says what was looked at, and when, where nothing needs a person', async () => {
    const { at, looked_at, items } = await report();
    expect(Math.abs(Date.parse(at) - app.clock.now().getTime())).toBeLessThan(60_000);
    expect(looked_at).toEqual([
      'guesses',
      'clock',
      'seals',
      'backup',
      'mail',
      'maintenance',
      'silent_verifiers',
      'unread_deletions',
      'unused_for_users',
      'household_without_admin',
      'old_key_used',
      'key_expires',
    ]);
    expect(items).toEqual([]);
  });

  it('names who guesses, at whom, and whether it goes on', async () => {
    const alice = await app.user();
    await guess(Array.from({ length: 18 }, (_, n) => `nobody-${n}@example.org`));
    expect(await find('guesses')).toEqual([]);
    await guess([alice.email, alice.email]);
    expect(await find('guesses')).toMatchObject([
      {
        severity: 'critical',
        subject: { type: 'address', id: '127.0.0.1' },
        detail: expect.stringMatching(
          `^20 wrong guesses at \\d+ accounts, most at (${alice.email}|an address without an account); still going on\\.$`,
        ) as string,
      },
    ]);
    app.clock.advance({ minutes: 20 });
    expect(await find('guesses')).toMatchObject([{ severity: 'warning' }]);
    app.clock.advance({ minutes: 60 });
    expect(await find('guesses')).toEqual([]);
  });

  it('names the five addresses from which one account is guessed most, in one window, and once it is in the audit log', async () => {
    const { id: subject, email } = await app.user();
    const refusal = { event: 'user.login.failed', reason: 'wrong_password', counted: subject, subject } as const;
    const refusals = app.nest.get(CountedRefusals);
    for (let from = 1; from <= 7; from += 1)
      for (let guessed = from; guessed <= 7; guessed += 1)
        await refusals.countRefusal(refusal, {
          door: 'open',
          id: null,
          address: `192.0.2.${from}`,
          requestId: randomUUID(),
        });
    const five = '192.0.2.1, 192.0.2.2, 192.0.2.3, 192.0.2.4, 192.0.2.5';
    expect(await find('guesses')).toMatchObject([
      {
        subject: { type: 'user', id: subject, name: email },
        detail: `28 wrong guesses from 7 or more addresses, most from ${five}; still going on.`,
      },
    ]);
    app.clock.advance({ minutes: 20 });
    await refusals.moveClosedWindows(app.clock.now());
    const [moved] = await find('guesses');
    expect(moved?.detail).toMatch(
      /^28 wrong guesses from 5 or more addresses, most from 192\.0\.2\.\d(, 192.0.2.\d){4}; /,
    );
  });

  it('reports throttled guesses, of which the audit log has no row', async () => {
    for (const status of [401, 401, ...Array<number>(100).fill(429)])
      await app.asAdmin('x'.repeat(40)).get('/nodes').expect(status);
    await eventually('all is counted', async () => (await find('guesses')).length > 0);
    const [finding] = await find('guesses');
    expect(finding).toMatchObject({ severity: 'critical', subject: { id: '127.0.0.1' } });
    expect(finding?.detail).toMatch(/ 10\d more guesses were throttled in this hour and the last\.$/);
  });

  it('names a household whose last admin was disabled', async () => {
    const alice = await app.user();
    const { body: home } = await app.admin
      .post('/nodes', { household_id: randomUUID(), room: 'hall', name: 'lamp' })
      .expect(201);
    const household = `/households/${(home as { household_id: string }).household_id}`;
    await app.admin.post(`${household}/members`, { user_id: alice.id, role: 'admin' }).expect(201);
    expect(await find('household_without_admin')).toEqual([]);
    await app.admin.patch(`/users/${alice.id}`, { is_active: false }).expect(200);
    expect(await find('household_without_admin')).toMatchObject([
      { severity: 'warning', subject: { type: 'household', id: household.split('/').at(-1) } },
    ]);
  });

  it('tells which keys expire, and which old keys are used near their deadline', async () => {
    const soon = new Date(app.clock.now().getTime() + 86_400_000).toISOString();
    const operator = await app.operator(['read'], 'temp', soon);
    const service = await app.service('ocr', 'recipes');
    await app.admin.post(`/app-credentials/${service.appId}/rotate`, { overlap_hours: 5 }).expect(200);
    expect(await find('old_key_used')).toEqual([]);
    await app.validateApp({ ...service.headers, 'X-Platform-Target': service.target }).expect(200);
    await app.admin.get(`/app-credentials/${service.appId}/explain`).expect(200);
    expect(await find('old_key_used')).toMatchObject([
      { subject: { type: 'app', id: service.appId, name: 'ocr → recipes' } },
    ]);
    expect(await find('key_expires')).toMatchObject([{ subject: { type: 'operator', id: operator.id, name: 'temp' } }]);
    await app.admin.delete(`/operators/${operator.id}`).expect(204);
    expect(await find('key_expires')).toEqual([]);
  });

  it('names the host whose clock is wrong, at every other replica', async () => {
    app.clock.drift({ seconds: 45 });
    await app.nest.get(HourlyCounts, { strict: false }).flush();
    expect(await find('clock')).toMatchObject([
      { severity: 'critical', subject: { type: 'host' }, detail: expect.stringContaining('by 45 s') as string },
    ]);
    app.clock.drift({ seconds: -45 });
  });

  it('names a service whose verifiers polled before, and do no longer', async () => {
    const service = await app.service('ocr', 'auth');
    await app.post('/internal/changes').set(service.headers).expect(200);
    await app.nest.get(VerifierPolls, { strict: false }).flush();
    expect(await find('silent_verifiers')).toEqual([]);
    await app.database.query(`UPDATE verifier_polls SET polled_at = now() - interval '6 minutes'`);
    expect(await find('silent_verifiers')).toMatchObject([
      { subject: { type: 'app', id: service.appId, name: 'ocr' } },
    ]);
    await app.admin.delete(`/app-credentials/${service.appId}`).expect(204);
    expect(await find('silent_verifiers')).toEqual([]);
  });

  it('names a service that has not read deletions of users for a day', async () => {
    const { caller } = await app.service('recipes', 'auth');
    await app.admin.put(`/event-subscriptions/${caller}`, { types: ['user.deleted'] }).expect(200);
    const { id } = await app.user();
    await app.admin.delete(`/users/${id}`).expect(204);
    await tell(app);
    expect(await find('unread_deletions')).toEqual([]);
    await app.database.query(`UPDATE events SET time = time - interval '49 hours' WHERE type = 'user.deleted'`);
    expect(await find('unread_deletions')).toMatchObject([
      {
        subject: { type: 'service', id: caller, name: caller },
        detail: 'It has not read 1 deletion of users for 2 days.',
      },
    ]);
    await app.admin.delete(`/event-subscriptions/${caller}`).expect(204);
  });

  it('names a pair for users with which no token was issued for 30 days, counted from its last change', async () => {
    const { appId, caller, target } = await app.service(undefined, 'ocr', ['documents:read']);
    const age = (column: string) =>
      app.database.query(`UPDATE app_credentials SET ${column} = now() - interval '31 days' WHERE id = $1`, [appId]);
    const setForUsers = (for_users: boolean) => app.admin.patch(`/app-credentials/${appId}`, { for_users }).expect(200);
    await age('created_at');
    await age('for_users_used_at');
    expect(await find('unused_for_users')).toEqual([]);
    await setForUsers(true);
    expect(await find('unused_for_users')).toEqual([]);
    await age('for_users_changed_at');
    await app.admin.patch(`/app-credentials/${appId}`, { scopes: ['documents:read', 'documents:write'] }).expect(200);
    expect(await find('unused_for_users')).toMatchObject([
      {
        severity: 'warning',
        subject: { type: 'app', id: appId, name: `${caller} → ${target}` },
        detail: expect.stringMatching(/^It is for users, and got no token for one in 30 days: /) as string,
      },
    ]);
    await app.database.query('UPDATE app_credentials SET for_users_used_at = now() WHERE id = $1', [appId]);
    expect(await find('unused_for_users')).toEqual([]);
    await age('for_users_used_at');
    await setForUsers(false);
    await age('for_users_changed_at');
    expect(await find('unused_for_users')).toEqual([]);
  });

  it('puts overdue work before what can wait, and names it', async () => {
    await app.operator(['read'], 'temp', new Date(app.clock.now().getTime() + 86_400_000).toISOString());
    await app.database.query(`UPDATE job_runs SET succeeded_at = now() - interval '3 hours' WHERE job = 'purge'`);
    expect((await report()).items).toMatchObject([
      { check: 'maintenance', severity: 'critical', detail: 'purge age: 180 min.' },
      { check: 'key_expires', severity: 'warning' },
    ]);
  });

  it('shows an operator what the scopes allow, and counts no refusal', async () => {
    const soon = new Date(app.clock.now().getTime() + 86_400_000).toISOString();
    await app.operator(['read'], 'temp', soon);
    const node = { household_id: randomUUID(), room: 'attic', name: 'lamp', expires_at: soon };
    const { body } = await app.admin.post('/nodes', node).expect(201);
    const keeper = await app.operator(['nodes']);
    const { looked_at, items } = await report(keeper.as());
    expect(looked_at).toEqual(['household_without_admin', 'old_key_used', 'key_expires']);
    expect(items).toMatchObject([{ subject: { type: 'node', id: body.node_id as string, name: 'attic/lamp' } }]);
    expect(await recorded(app, { event: 'admin.scope.refused' })).toEqual([]);
  });
});
