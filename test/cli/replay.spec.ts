import { randomUUID } from 'node:crypto';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { Subscriber } from '../domain/events/subscriber.js';
import { accept, Home } from '../support/home.js';
import { Owner } from '../support/owner.js';
import { useCli } from '../support/cli.js';
import { UNLEASED } from '../support/settings.js';
import { useApp } from '../support/use-app.js';

/** The tables that a dump brings back as they were. */
const TABLES = [
  ...['household_invitations', 'household_members', 'node_enrolments', 'sessions', 'users', 'households'],
  ...['nodes', 'app_credentials', 'operators'],
];

describe('platform-auth replay', () => {
  const app = useApp({ variables: UNLEASED });
  const cli = useCli(app);

  const copy = async (): Promise<void> => {
    for (const table of TABLES) await app.database.query(`CREATE TABLE dump_${table} AS TABLE ${table}`);
  };
  const restore = async (): Promise<void> => {
    await app.database.query(`TRUNCATE ${TABLES.join(', ')} CASCADE`);
    const inserts = TABLES.toReversed().map((table) => `INSERT INTO ${table} SELECT * FROM dump_${table}`);
    const drops = TABLES.map((table) => `DROP TABLE dump_${table}`);
    // A restore makes the triggers last.
    const sql = ['SET session_replication_role = replica', ...inserts, ...drops, 'RESET session_replication_role'];
    await app.database.query(sql.join('; '));
  };

  it('ends again, once, what was ended since the dump, names what was issued since, and does nothing else', async () => {
    const [kept, revoked, other] = [await app.node(), await app.node(), await app.node()];
    const service = await app.service();
    const narrowed = await app.service('web', 'ocr', ['documents:read', 'documents:write']);
    const operator = await app.operator(['read'], 'mallory');
    const [gone, disabled, enabled, left, stays] = [
      await app.user(),
      await app.user(),
      await app.user(),
      await app.user(),
      await app.user(),
    ];
    const tokens = await left.logsIn();
    const open = await stays.logsIn();
    await copy();
    const [newcomer, added, removed] = [await app.user(), await app.node(), await app.node()];
    await app.admin.delete(`/nodes/${removed.nodeId}`).expect(204);
    await app.admin.delete(`/nodes/${revoked.nodeId}`).expect(204);
    await app.admin.delete(`/app-credentials/${service.appId}`).expect(204);
    await app.admin.delete(`/operators/${operator.id}`).expect(204);
    await app.admin.delete(`/users/${gone.id}`).expect(204);
    for (const { id } of [disabled, enabled]) await app.admin.patch(`/users/${id}`, { is_active: false }).expect(200);
    await app.admin.patch(`/users/${enabled.id}`, { is_active: true }).expect(200);
    await app.logout(tokens.refresh_token).expect(204);
    await app.admin.post(`/nodes/${kept.nodeId}/rotate`).expect(200);
    await app.admin.patch(`/nodes/${kept.nodeId}`, { name: 'lamp' }).expect(200);
    await app.admin.patch(`/nodes/${other.nodeId}`, { targets: ['recipes'] }).expect(200);
    await app.admin.patch(`/app-credentials/${narrowed.appId}`, { scopes: ['documents:read'] }).expect(200);
    const ofDatabase = cli.with({ DATABASE_URL: app.database.url });
    await ofDatabase.ok('audit export --from-database -o audit.ndjson');
    expect(statSync(cli.path('audit.ndjson')).mode & 0o777).toBe(0o600);
    await cli.ok('audit export -o same.ndjson');
    const read = (name: string): unknown[] =>
      readFileSync(cli.path(name), 'utf8')
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line) as unknown);
    expect(read('audit.ndjson')).toEqual(read('same.ndjson'));
    await restore();

    expect(await cli.fails('replay audit.ndjson')).toMatch(/Add --yes to confirm/);
    type Report = { steps: { action: string; subject: string }[]; by_hand: Record<string, string[]> };
    const plan = await cli.json<Report>('replay audit.ndjson --dry-run');
    expect(plan.steps.map(({ action, subject }) => `${action} ${subject}`).sort()).toEqual(
      [
        `delete ${gone.email}`,
        `disable ${disabled.email}`,
        `end sessions ${left.email}`,
        `revoke ${service.caller}/${service.target}`,
        'revoke mallory',
        'revoke kitchen/speaker',
      ].sort(),
    );
    expect(plan.by_hand).toEqual({
      'admin.node.rotated': [kept.nodeId],
      'admin.node.updated': [other.nodeId],
      'admin.app_credential.updated': [narrowed.appId],
      'admin.node.issued': [added.nodeId],
      'user.registered': [newcomer.id],
    });
    expect(await cli.json('replay audit.ndjson --yes')).toMatchObject({ done: true, steps: plan.steps });
    expect(await cli.json('replay audit.ndjson --yes')).toMatchObject({ steps: [] });
    await app.admin.get(`/users/${gone.id}`).expect(404);
    await app.refresh(tokens.refresh_token).expect(401);
    await app.refresh(open.refresh_token).expect(200);
    await app.asAdmin(operator.key).get('/nodes').expect(401);
    expect((await app.admin.get(`/users/${disabled.id}`)).body).toMatchObject({ is_active: false });
    expect((await app.admin.get(`/users/${enabled.id}`)).body).toMatchObject({ is_active: true });
    const { items } = await cli.json<{ items: object[] }>(`audit --event admin.* --subject ${revoked.nodeId}`);
    expect(items).toMatchObject([{ event: 'admin.node.revoked' }, { event: 'admin.node.revoked' }, {}]);
  });

  it('resets each subscription to events, so that every service compares what it knows', async () => {
    const subscribers = [await Subscriber.to(app, ['user.deleted']), await Subscriber.to(app, ['user.disabled'])];
    const names = subscribers.map(({ name }) => name);
    for (const subscriber of subscribers) expect(await subscriber.read()).toMatchObject({ reset: false });
    await cli.ok('audit export -o subscribed.ndjson');
    type Report = { reset_event_subscriptions: string[] };
    const plan = await cli.json<Report>('replay subscribed.ndjson --dry-run');
    expect(plan.reset_event_subscriptions).toEqual([]);
    for (const subscriber of subscribers) expect(await subscriber.read()).toMatchObject({ reset: false });
    const report = await cli.json<Report>('replay subscribed.ndjson --yes');
    expect(report.reset_event_subscriptions.sort()).toEqual(names.sort());
    for (const subscriber of subscribers) {
      const { cursor } = await subscriber.read();
      expect(await subscriber.read()).toMatchObject({ reset: true });
      expect(await subscriber.read({ after: cursor })).toMatchObject({ reset: false });
    }
    expect(await cli.ok('replay subscribed.ndjson --yes')).toContain('Compare what they know with the users here: ');
  });

  it('removes and demotes again, and closes every code that is older than the restore', async () => {
    const [home, gone] = [await Home.of(app), await Home.of(app)];
    const [removed, demoted, stays, deleted] = [
      await home.member(),
      await home.secondAdmin(),
      await home.member(),
      await home.member(),
    ];
    const [used, open] = [await home.code(), await home.code()];
    const enrolment = { household_id: home.id, room: 'hall', name: 'lamp' };
    await app.admin.post('/enrolments', enrolment).expect(201);
    await app.node(gone.id);
    await copy();
    await home.remove(home.admin, removed).expect(204);
    await home.setRole(home.admin, demoted, 'member').expect(200);
    await home.setRole(home.admin, stays, 'admin').expect(200);
    await home.setRole(home.admin, stays, 'member').expect(200);
    await app.admin.delete(`/users/${deleted.user.id}`).expect(204);
    await accept(app, await Owner.of(app), used).expect(200);
    await gone.deleteBy(gone.admin, undefined, '?revoke_nodes=true').expect(204);
    const later = await Home.of(app);
    await cli.ok('audit export -o households.ndjson');
    await restore();

    type Report = { steps: { action: string; subject: string }[]; by_hand: Record<string, string[]> };
    const plan = await cli.json<Report>('replay households.ndjson --yes');
    const steps = plan.steps.map(({ action, subject }) => `${action} ${subject.replace(/ [0-9a-f-]{36}$/, '')}`);
    expect(steps.sort()).toEqual(
      [
        ...['cancel enrolment', 'cancel invitation', 'cancel invitation', 'delete home', 'revoke kitchen/speaker'],
        ...[`remove ${removed.user.email}`, `demote ${demoted.user.email}`, `delete ${deleted.user.email}`],
      ].sort(),
    );
    expect(plan.by_hand['household.created']).toEqual([later.id]);
    expect(await home.roleOf(removed)).toBeUndefined();
    expect([await home.roleOf(demoted), await home.roleOf(stays)]).toEqual(['member', 'member']);
    for (const code of [used, open]) expect((await accept(app, await Owner.of(app), code)).status).toBe(404);
    const { body: issued } = await home.invite().expect(201);
    expect(await cli.json('replay households.ndjson --yes')).toMatchObject({ steps: [] });
    await accept(app, await Owner.of(app), (issued as { code: string }).code).expect(200);
  });

  it('takes only ids for subjects: any other text would lead to another path', async () => {
    const node = await app.node();
    const event = (subject: string) => ({ time: app.clock.now().toISOString(), event: 'admin.node.revoked', subject });
    const subjects = [`../users/../nodes/${node.nodeId}`, `${node.nodeId}/explain`, '..', '?live=true', '%2e%2e'];
    writeFileSync(cli.path('hostile.ndjson'), subjects.map((each) => `${JSON.stringify(event(each))}\n`).join(''));
    const { steps, by_hand } = await cli.json<{ steps: object[]; by_hand: object }>('replay hostile.ndjson --dry-run');
    expect({ steps, by_hand }).toEqual({ steps: [], by_hand: {} });
  });

  it('ignores events whose names are those of properties that every object inherits', async () => {
    const names = ['constructor', 'toString', 'hasOwnProperty'];
    const event = (name: string) => ({ time: app.clock.now().toISOString(), event: name, subject: randomUUID() });
    writeFileSync(cli.path('inherited.ndjson'), names.map((name) => `${JSON.stringify(event(name))}\n`).join(''));
    const { steps, by_hand } = await cli.json<{ steps: object[]; by_hand: object }>(
      'replay inherited.ndjson --dry-run',
    );
    expect({ steps, by_hand }).toEqual({ steps: [], by_hand: {} });
  });

  it('refuses a file of another kind', async () => {
    writeFileSync(cli.path('other.ndjson'), '{"id":"1"}\n');
    expect(await cli.fails('replay other.ndjson')).toMatch(/^Line 1 of other.ndjson is not an event/);
    expect(await cli.fails('replay missing.ndjson')).toMatch(/missing\.ndjson/);
  });
});
