import { randomUUID } from 'node:crypto';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { AUDIT_EVENT_NAMES, type AuditEventName } from '../../src/foundation/common/security-events.js';
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

  interface Report {
    readonly steps: readonly { action: string; path: string; subject: string; expires_at?: string }[];
    readonly by_hand: Readonly<Record<string, string[]>>;
  }
  const write = (name: string, events: readonly object[]): void =>
    writeFileSync(cli.path(name), events.map((each) => `${JSON.stringify(each)}\n`).join(''));

  const withoutCodes = ({ steps }: Report) =>
    steps.filter(({ action }) => action !== 'cancel').map(({ action, subject }) => `${action} ${subject}`);

  it('leaves a household and a membership that began again since, and ends what ended after that', async () => {
    const ofDatabase = cli.with({ DATABASE_URL: app.database.url });
    const [home, remade] = [await Home.of(app), await Home.of(app)];
    const [{ user: imported }, { user: later }] = [await home.member(), await home.member()];
    await ofDatabase.ok('users export --yes -o accounts.ndjson');
    const membership = `/households/${home.id}/members/${imported.id}`;
    await app.admin.delete(membership).expect(204);
    await app.admin.delete(`/users/${imported.id}`).expect(204);
    await ofDatabase.ok('users import accounts.ndjson');
    await app.admin.delete(`/households/${remade.id}`).expect(204);
    const node = await app.node(remade.id);
    const member = { user_id: later.id, role: 'member' };
    await app.admin.post(`/households/${remade.id}/members`, member).expect(201);
    await copy();
    await app.admin.delete(`/households/${remade.id}/members/${later.id}`).expect(204);
    await cli.ok('audit export -o again.ndjson');
    await restore();
    const report = await cli.json<Report>('replay again.ndjson --yes');
    expect(withoutCodes(report)).toEqual([`remove ${later.email}`]);
    expect(report.by_hand).toMatchObject({ 'admin.user.deleted': [imported.id] });
    await app.login(imported.email).expect(200);
    const { body } = await app.admin.get(`/households/${home.id}/members`).expect(200);
    expect((body as { items: { id: string }[] }).items.map(({ id }) => id)).toContain(imported.id);
    await app.validateNode(node.header).expect(200);
  });

  it('lists a deleted account by hand when it was changed since the restore, and ends its old sessions', async () => {
    const owners = [await Owner.of(app), await Owner.of(app)] as const;
    const [byOperator, bySelf] = owners;
    await copy();
    await app.admin.delete(`/users/${byOperator.user.id}`).expect(204);
    await bySelf.deleteAccount().expect(204);
    await cli.ok('audit export -o changed.ndjson');
    await restore();
    for (const { user } of owners) await app.admin.patch(`/users/${user.id}`, { email_verified: true }).expect(200);
    const report = await cli.json<Report>('replay changed.ndjson --yes');
    expect(withoutCodes(report).sort()).toEqual(owners.map(({ user }) => `end sessions ${user.email}`).sort());
    expect(report.by_hand).toMatchObject({
      'admin.user.deleted': expect.arrayContaining([byOperator.user.id]),
      'user.deleted': [bySelf.user.id],
    });
    for (const { user } of owners) await app.admin.get(`/users/${user.id}`).expect(200);
  });

  it('ends again the sessions of a user who was disabled since, and enabled again', async () => {
    const user = await app.user();
    const { refresh_token: old } = await user.logsIn();
    await copy();
    for (const is_active of [false, true]) await app.admin.patch(`/users/${user.id}`, { is_active }).expect(200);
    await cli.ok('audit export -o disabled.ndjson');
    await restore();
    const { steps } = await cli.json<Report>('replay disabled.ndjson --yes');
    expect(steps.filter(({ subject }) => subject === user.email)).toMatchObject([{ action: 'end sessions' }]);
    await app.refresh(old).expect(401);
    expect((await app.admin.get(`/users/${user.id}`)).body).toMatchObject({ is_active: true });
    const { refresh_token: since } = await user.logsIn();
    expect((await cli.json<Report>('replay disabled.ndjson --yes')).steps).toEqual([]);
    await app.refresh(since).expect(200);
  });

  it('sets again the earlier end of a key, unless it was extended since or the key is revoked', async () => {
    const [expired, extended, renamed, revoked] = [
      await app.node(),
      await app.node(),
      await app.node(),
      await app.node(),
    ];
    const operator = await app.operator();
    const past = new Date(app.clock.now().getTime() - 1_000).toISOString();
    const later = new Date(app.clock.now().getTime() + 86_400_000).toISOString();
    await copy();
    const expire = (path: string, expires_at: string | null = past) =>
      app.admin.patch(path, { expires_at }).expect(200);
    for (const { nodeId } of [expired, extended, revoked]) await expire(`/nodes/${nodeId}`);
    await expire(`/nodes/${extended.nodeId}`, null);
    await app.admin.patch(`/nodes/${renamed.nodeId}`, { name: 'lamp' }).expect(200);
    await app.admin.delete(`/nodes/${revoked.nodeId}`).expect(204);
    await expire(`/operators/${operator.id}`, later);
    await cli.ok('audit export -o expired.ndjson');
    await restore();
    await app.validateNode(expired.header).expect(200);
    const { steps, by_hand } = await cli.json<Report>('replay expired.ndjson --yes');
    expect(steps.map(({ action, path, expires_at }) => [action, path, expires_at]).sort()).toEqual(
      [
        ['expire', `/nodes/${expired.nodeId}`, past],
        ['revoke', `/nodes/${revoked.nodeId}`, undefined],
        ['expire', `/operators/${operator.id}`, later],
      ].sort(),
    );
    expect(by_hand['admin.operator.updated']).toBeUndefined();
    await app.validateNode(expired.header).expect(401);
    for (const node of [extended, renamed]) await app.validateNode(node.header).expect(200);
    expect((await app.admin.get(`/operators/${operator.id}`)).body).toMatchObject({ expires_at: later });
    expect((await cli.json<Report>('replay expired.ndjson --yes')).steps).toEqual([]);
  });

  it('names the command that revokes or retires a signing key again, which needs the database', async () => {
    const time = app.clock.now().toISOString();
    const [stolen, retired] = ['sT3RrX8h2V0', 'Qm_4-x'];
    write('signing.ndjson', [
      {
        time,
        event: 'signing_key.revoked',
        subject: randomUUID(),
        details: { kid: stolen, before: { state: 'active' } },
      },
      {
        time,
        event: 'signing_key.retired',
        subject: randomUUID(),
        details: { kid: retired, before: { state: 'next' } },
      },
      {
        time,
        event: 'signing_key.revoked',
        subject: '00000000-0000-4000-8000-000000000000',
        details: { kid: '$(id)' },
      },
    ]);
    const { by_hand } = await cli.json<Report>('replay signing.ndjson --dry-run');
    expect(by_hand).toEqual({
      'signing_key.revoked': [stolen, '00000000-0000-4000-8000-000000000000'],
      'signing_key.retired': [retired],
    });
    const text = await cli.ok('replay signing.ndjson --dry-run');
    expect(text).toContain(`signing_key.revoked: platform-auth keys revoke ${stolen}`);
    expect(text).toContain(`signing_key.retired: platform-auth keys retire ${retired}`);
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

  it('reads standard input for -, and asks nobody there', async () => {
    const { nodeId: subject } = await app.node();
    const event = { time: app.clock.now().toISOString(), event: 'admin.node.revoked', subject };
    const piped = cli.withInput(`${JSON.stringify(event)}\n`);
    expect(await piped.fails('replay -')).toMatch(/Add --yes to confirm/);
    const { steps } = await piped.json<Report>('replay - --yes');
    expect(steps).toMatchObject([{ action: 'revoke', path: `/nodes/${subject}` }]);
    expect((await app.admin.get(`/nodes/${subject}`)).body).toMatchObject({ revoked_at: expect.any(String) });
  });

  it('refuses a file of another kind', async () => {
    writeFileSync(cli.path('other.ndjson'), '{"id":"1"}\n');
    expect(await cli.fails('replay other.ndjson')).toMatch(/^Line 1 of other.ndjson is not an event/);
    expect(await cli.fails('replay missing.ndjson')).toMatch(/missing\.ndjson/);
  });

  describe('decides about every event of the audit log', () => {
    interface Case {
      readonly subject: string;
      readonly path: string;
      readonly details?: object;
    }
    const node = async (details = {}): Promise<Case> => {
      const { nodeId: subject } = await app.node();
      return { subject, path: `/nodes/${subject}`, details };
    };
    const service = async (): Promise<Case> => {
      const { appId: subject } = await app.service();
      return { subject, path: `/app-credentials/${subject}` };
    };
    const operator = async (details = {}): Promise<Case> => {
      const { id: subject } = await app.operator();
      return { subject, path: `/operators/${subject}`, details };
    };
    const user = async (details = {}): Promise<Case> => {
      const { id: subject } = await app.user();
      return { subject, path: `/users/${subject}`, details };
    };
    const session = async (details = {}): Promise<Case> => {
      const account = await app.user();
      await account.logsIn();
      return { subject: account.id, path: `/users/${account.id}/sessions`, details };
    };
    const endedSession = () => session({ ended_sessions: 1 });
    const household = async (): Promise<Case> => {
      const { id } = await Home.of(app);
      return { subject: id, path: `/households/${id}?revoke_nodes=true` };
    };
    const member = async (join: 'member' | 'secondAdmin', details = {}): Promise<Case> => {
      const home = await Home.of(app);
      const { id: user_id } = (await home[join]()).user;
      return { subject: home.id, path: `/households/${home.id}/members/${user_id}`, details: { user_id, ...details } };
    };
    const subscription = async (): Promise<Case> => {
      const { name } = await Subscriber.to(app, ['user.deleted']);
      return { subject: name, path: `/event-subscriptions/${name}` };
    };
    const end = { expires_at: '2020-01-01T00:00:00.000Z' };

    const REPEATED: Partial<Record<AuditEventName, readonly [action: string, make: () => Promise<Case>]>> = {
      'user.deleted': ['delete', user],
      'admin.user.deleted': ['delete', user],
      'admin.user.updated': ['disable', () => user({ after: { is_active: false } })],
      'admin.user.sessions_revoked': ['end sessions', session],
      'admin.user.factors_removed': ['end sessions', endedSession],
      'user.password.changed': ['end sessions', endedSession],
      'user.password.reset': ['end sessions', endedSession],
      'user.totp.enrolled': ['end sessions', endedSession],
      'user.passkey.added': ['end sessions', endedSession],
      'session.ended': ['end sessions', session],
      'session.refresh.reused': ['end sessions', session],
      'admin.node.revoked': ['revoke', node],
      'admin.node.updated': ['expire', () => node({ before: { expires_at: null }, after: end })],
      'admin.app_credential.revoked': ['revoke', service],
      'admin.operator.revoked': ['revoke', operator],
      'admin.operator.updated': ['expire', () => operator({ before: { expires_at: null }, after: end })],
      'admin.event_subscription.removed': ['remove', subscription],
      'household.deleted': ['delete', household],
      'household.member.changed': ['demote', () => member('secondAdmin', { after: { role: 'member' } })],
      'household.member.removed': ['remove', () => member('member')],
      'household.member.left': ['remove', () => member('member')],
    };
    /** It cancels every code that is older than the restore. */
    const ENDS_CODE: readonly AuditEventName[] = [
      ...(['admin.enrolment.cancelled', 'node.enrolled'] as const),
      ...(['household.invitation.cancelled', 'household.invitation.used'] as const),
    ];
    const BY_HAND: Partial<Record<AuditEventName, object>> = {
      'user.password.changed': {},
      'user.password.reset': {},
      'user.email.changed': {},
      'user.totp.removed': {},
      'user.passkey.removed': {},
      'user.recovery_codes.replaced': {},
      'user.recovery_code.used': {},
      'admin.user.factors_removed': {},
      'admin.user.updated': { before: { email_verified: true }, after: { is_active: true, email_verified: false } },
      'signing_key.retired': {},
      'signing_key.revoked': {},
      'node.rotated': {},
      'admin.node.rotated': {},
      'admin.node.updated': { before: {}, after: { targets: ['ocr'] } },
      'admin.app_credential.rotated': {},
      'admin.app_credential.rotation_finished': {},
      'admin.app_credential.updated': { before: { for_users: true, scopes: ['a'] }, after: { scopes: ['a'] } },
      'admin.operator.rotated': {},
      'admin.operator.rotation_finished': {},
      'admin.operator.updated': { before: { scopes: ['nodes', 'read'] }, after: { scopes: ['read'] } },
      'operator.passkey.removed': {},
      'admin.event_subscription.set': {},
    };
    /** Listed by hand when the restored database does not have what they made. */
    const GONE: readonly AuditEventName[] = [
      ...(['user.registered', 'admin.user.created', 'household.created', 'node.enrolled'] as const),
      ...(['admin.node.issued', 'admin.app_credential.issued', 'admin.operator.issued'] as const),
    ];
    /** They take nothing away, or what a restore brings back ends by itself within hours. */
    const NEITHER: readonly AuditEventName[] = [
      ...(['user.login.succeeded', 'user.login.failed', 'user.second_factor.failed', 'user.access.refused'] as const),
      ...(['user.deletion.acknowledged', 'user.email.verified', 'user.email.change_requested'] as const),
      ...(['user.mail.sent', 'user.mail.failed', 'user.totp.started', 'user.passkey.renamed'] as const),
      ...(['session.refresh.repeated_elsewhere', 'token.exchange.first_used', 'token.exchange.refused'] as const),
      ...(['node.enrolment.reused', 'node.first_used', 'node.validation.failed'] as const),
      ...(['app.first_used', 'app.validation.failed', 'operator.first_used', 'operator.passkey.added'] as const),
      ...(['admin.key.refused', 'admin.scope.refused', 'admin.enrolment.issued'] as const),
      ...(['admin.console.logged_in', 'admin.console.logged_out', 'admin.console.refused'] as const),
      ...(['admin.user.password_reset_issued', 'admin.user.throttles_removed'] as const),
      ...(['admin.event_subscription.rewound', 'admin.event_subscription.skipped'] as const),
      ...(['admin.event_subscription.reset', 'household.renamed', 'household.member.added'] as const),
      ...(['household.invitation.issued', 'users.import_started', 'users.imported', 'users.exported'] as const),
      'audit.finding.acknowledged',
    ];

    it('has each event in a column', () => {
      const others = [...Object.keys(REPEATED), ...ENDS_CODE, ...Object.keys(BY_HAND), ...GONE];
      expect([...new Set([...others, ...NEITHER])].sort()).toEqual([...AUDIT_EVENT_NAMES].sort());
      expect(NEITHER.filter((name) => others.includes(name))).toEqual([]);
    });

    it('repeats, lists by hand or passes over each as its column says', async () => {
      const made: (Case & { event: string; action: string })[] = [];
      for (const [event, [action, make]] of Object.entries(REPEATED)) made.push({ event, action, ...(await make()) });
      const home = await Home.of(app);
      await home.code();
      await app.admin.post('/enrolments', { household_id: home.id, room: 'hall', name: 'lamp' }).expect(201);
      const bystander = await session();
      const nameSubject = (event: string) => (/^admin\.event_subscription/.test(event) ? 'ocr' : randomUUID());
      const time = new Date(app.clock.now().getTime() + 1_000).toISOString();
      const events = [
        ...made.map(({ event, subject, details }) => ({ event, subject, details })),
        ...ENDS_CODE.map((event) => ({ event, subject: randomUUID() })),
        ...Object.entries(BY_HAND).map(([event, details]) => ({ event, subject: nameSubject(event), details })),
        ...GONE.map((event) => ({ event, subject: randomUUID() })),
        ...NEITHER.map((event) => ({ event, subject: bystander.subject })),
      ];
      write(
        'each.ndjson',
        events.map((event) => ({ time, ...event })),
      );
      const { steps, by_hand } = await cli.json<Report>('replay each.ndjson --dry-run');
      const format = ({ action, path }: { action: string; path: string }): string => `${action} ${path}`;
      const codes = steps.filter(({ action }) => action === 'cancel').map(({ path }) => path.split('/')[1]);
      expect(
        steps
          .filter(({ action }) => action !== 'cancel')
          .map(format)
          .sort(),
      ).toEqual(made.map(format).sort());
      expect(codes.sort()).toEqual(['enrolments', 'invitations']);
      expect(Object.keys(by_hand).sort()).toEqual([...Object.keys(BY_HAND), ...GONE].sort());
    });
  });
});
