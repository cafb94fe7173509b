import { randomUUID } from 'node:crypto';
import { Client } from 'pg';
import { FactorOwner } from '../../domain/second-factors/owner.js';
import { eventually } from '../../../tools/eventually.js';
import { Browser } from '../../support/console-browser.js';
import { expectInvalid } from '../../support/expect-problem.js';
import { UNLEASED } from '../../support/settings.js';
import type { TestApp } from '../../support/test-app.js';
import { useApp } from '../../support/use-app.js';

interface ListPage {
  readonly items: Record<string, string>[];
  readonly next_cursor: string | null;
}

async function readPage(app: TestApp, path: string, query: Record<string, string>): Promise<ListPage> {
  const isSearch = path.endsWith('/search');
  const call = isSearch
    ? app.admin.post(path, query)
    : app.admin.get(`${path}?${new URLSearchParams(query).toString()}`);
  return (await call.expect(200)).body as ListPage;
}

/** @returns the members that name each item of all pages; between pages it does what it is given */
async function readAll(
  app: TestApp,
  path: string,
  query: Record<string, string>,
  member: string,
  afterPage?: () => Promise<unknown>,
): Promise<string[]> {
  const found: string[] = [];
  for (let cursor: string | null = ''; cursor !== null;) {
    const page: ListPage = await readPage(app, path, { ...query, limit: '2', ...(cursor && { cursor }) });
    expect(page.items.length).toBeLessThanOrEqual(2);
    found.push(...page.items.map((item) => item[member]!));
    cursor = page.next_cursor;
    await afterPage?.();
  }
  return found;
}

const app = useApp({ variables: UNLEASED });

describe('a list', () => {
  const [household_id, caller] = [randomUUID(), randomUUID()];

  it.each<[string, string, Record<string, string>, (index: number) => Promise<string>]>([
    ['/users', 'id', {}, async () => (await app.user()).id],
    ['/nodes', 'node_id', { household_id }, async () => (await app.node(household_id)).nodeId],
    ['/app-credentials', 'app_id', { caller }, async (index) => (await app.service(caller, `target-${index}`)).appId],
    ['/operators', 'operator_id', {}, async () => (await app.operator()).id],
  ])('%s has each match exactly once over all pages, also while more are made', async (path, member, query, make) => {
    await app.node();
    await app.service();
    const expected: string[] = [];
    const makeUpTo = async (count: number): Promise<void> => {
      while (expected.length < count) expected.push(await make(expected.length));
    };
    await makeUpTo(5);
    const seen = await readAll(app, path, query, member, async () => makeUpTo(Math.min(7, expected.length + 1)));
    expect(seen).toEqual(expected);
    expect(await readPage(app, path, { ...query, limit: '7' })).toMatchObject({ next_cursor: null });
  });

  it.each([
    [
      '/app-credentials',
      [
        ...['limit=0', 'limit=-1', 'limit=101', 'limit=1e1', 'limit= 1', 'limit=', 'limit=x', 'limit=1&limit=2'],
        ...['cursor=x', 'cursor=', 'caller=', 'caller=a%20b', 'target=%00', 'key_digest=x'],
        ...['1', `${randomUUID()}x`, "' or 1=1", randomUUID().slice(1)].map((text) => `cursor=${btoa(text)}`),
      ],
    ],
    [
      '/nodes',
      [
        ...['household_id=x', 'colour=red', 'search=', 'live=false', 'in_overlap=no', 'unused_since=30d'],
        ...['expires_before=soon', 'search=a&search=b', 'live=true&live=true'],
      ],
    ],
    [
      '/users',
      [
        ...['search=', 'search=%20%20%20', `search=${'x'.repeat(101)}`, 'search=nul%00', 'search=a&search=b'],
        ...['disabled=false', 'unverified=1', 'without_factor=yes', 'throttled=', 'disabled=true&disabled=true'],
        ...['created_since=yesterday', 'created_since=2026-01-01', 'deleted=true', 'email=nonsense'],
      ],
    ],
  ])('%s answers 400 to the queries %j, and to a parameter with brackets', async (path, queries) => {
    for (const query of queries) expectInvalid(await app.admin.get(`${path}?${query}`), `/${query.split('=')[0]!}`);
    expectInvalid(await app.admin.get(`${path}?cursor[a]=b`), '/?');
  });
});

describe('POST /api/v0/admin/users/search', () => {
  const app = useApp({ variables: { ...UNLEASED, LOGIN_LIMIT_PER_ACCOUNT_AND_ADDRESS: '3/900' } });
  const list = (query: Record<string, string>) => readAll(app, '/users/search', query, 'email');
  const insert = (email: string) =>
    app.database.query(
      `INSERT INTO users (id, email, password_hash, is_active, created_at, updated_at)
       VALUES (gen_random_uuid(), $1, 'x', true, now(), now())`,
      [email],
    );

  it('takes an address in the body only, so that no proxy logs it', async () => {
    const { email } = await app.user();
    for (const name of ['email', 'search'])
      expectInvalid(await app.admin.get(`/users?${name}=${encodeURIComponent(email)}`), `/${name}`);
    expectInvalid(await app.admin.post('/users/search', { email: 'nonsense' }), '/email');
    expectInvalid(await app.admin.post('/users/search', { search: ' ' }), '/search');
    const reader = await app.operator(['read']);
    await reader.as().post('/users/search', { email }).expect(200);
  });

  it.each(['sort', 'limit', 'cursor'])('answers 400 when %s is null', async (name) => {
    expectInvalid(await app.admin.post('/users/search', { [name]: null }), `/${name}`);
  });

  it('searches for a part of the address in any case, in which the wildcards of LIKE stand for themselves', async () => {
    for (const name of ['ann_a', 'anna', 'joann', 'a%b', 'axb', 'a\\b', 'bo']) await insert(`${name}@search.test`);
    const search = async (part: string) => (await list({ search: part })).map((email) => email.split('@')[0]);
    expect((await search('ANN')).sort()).toEqual(['ann_a', 'anna', 'joann']);
    expect(await search('n_')).toEqual(['ann_a']);
    expect(await search('a%b')).toEqual(['a%b']);
    expect(await search('a\\b')).toEqual(['a\\b']);
    expect(await search('arch.test')).toHaveLength(7);
    expect(await list({ search: 'arch.test', email: 'BO@Search.test' })).toEqual(['bo@search.test']);
    expect(await search('_%')).toEqual([]);
  });

  it('shows only disabled users, unverified ones, ones without a second factor, and ones created since', async () => {
    const { user: alice } = await FactorOwner.withTotp(app);
    const [bob, carol] = [await app.user(), await app.user()];
    await app.admin.patch(`/users/${bob.id}`, { is_active: false }).expect(200);
    await app.database.query('UPDATE users SET email_verified_at = now() WHERE id = $1', [carol.id]);
    await app.database.query(`UPDATE users SET created_at = '2035-01-01' WHERE id = ANY ($1)`, [[alice.id, bob.id]]);
    expect(await list({ disabled: 'true' })).toEqual([bob.email]);
    const without = await list({ without_factor: 'true' });
    expect([alice, bob, carol].map(({ email }) => without.includes(email))).toEqual([false, true, true]);
    const unverified = await list({ unverified: 'true' });
    expect([alice, bob, carol].map(({ email }) => unverified.includes(email))).toEqual([true, true, false]);
    const since = { created_since: '2035-01-01T00:00:00Z' };
    expect((await list(since)).sort()).toEqual([alice.email, bob.email].sort());
    expect(await list({ ...since, disabled: 'true', search: bob.email.slice(3) })).toEqual([bob.email]);
    expect(await list({ created_since: '2035-01-01T00:00:01Z' })).toEqual([]);
  });

  it('asks for a passkey as for any second factor, and not for an app that was never confirmed', async () => {
    const [dora, erin] = [await app.user(), await app.user()];
    await app.database.query(
      `INSERT INTO passkeys (id, user_id, credential_id, public_key, counter, transports, is_synced, name, created_at)
       VALUES ($1, $2, '\\x01', '\\x02', 0, '{}', false, 'key', now())`,
      [randomUUID(), dora.id],
    );
    await app.database.query(
      `INSERT INTO totp_factors (user_id, encrypted_secret, key_mark, created_at) VALUES ($1, '\\x01', '\\x02', now())`,
      [erin.id],
    );
    const without = await list({ without_factor: 'true' });
    expect([dora, erin].map(({ email }) => without.includes(email))).toEqual([false, true]);
  });

  it('shows the users whose passwords or codes are refused now, and no longer when the window is over', async () => {
    const [frank, grace] = [await app.user(), await app.user()];
    for (let wrong = 0; wrong < 3; wrong += 1) await app.login(frank.email, 'not the password').expect(401);
    await app.login(grace.email, 'not the password').expect(401);
    expect(await list({ throttled: 'true' })).toEqual([frank.email]);
    expect(await list({ throttled: 'true', search: grace.email })).toEqual([]);
    await app.database.query(`UPDATE throttle_windows SET window_end = now() WHERE key LIKE 'login-account-address:%'`);
    expect(await list({ throttled: 'true' })).toEqual([]);
    const heidi = await FactorOwner.withTotp(app);
    const { challenge } = await heidi.isChallenged();
    const guess = () => heidi.answers(challenge, 'totp', { code: heidi.wrongCode() });
    while ((await guess()).status !== 429);
    expect(await list({ throttled: 'true' })).toEqual([heidi.user.email]);
  });
});

describe('GET /api/v0/admin/nodes', () => {
  const app = useApp({ variables: UNLEASED });
  const list = (query: Record<string, string>) => readAll(app, '/nodes', query, 'name');
  const count = async (path: string) => (await app.admin.get(`${path}/summary`).expect(200)).body as object;
  const register = async (room: string, name: string): Promise<string> =>
    (await app.admin.post('/nodes', { household_id: randomUUID(), room, name }).expect(201)).body.node_id as string;

  it('searches room and name, live and unused ones, and counts them', async () => {
    const lamp = await register('Kitchen', 'lamp 100%');
    const tap = await register('kitchenette', 'tap');
    const bulb = await register('客厅', 'Bulb');
    const gone = await register('hall', 'door');
    await app.admin.delete(`/nodes/${gone}`).expect(204);
    const set = async (id: string, change: string) =>
      app.database.query(`UPDATE nodes SET ${change} WHERE id = $1`, [id]);
    await set(lamp, `created_at = now() - interval '40 days', last_used_at = now() - interval '1 day'`);
    await set(tap, `created_at = now() - interval '40 days', last_used_at = now() - interval '31 days'`);
    await set(bulb, `created_at = now() - interval '40 days', expires_at = now() + interval '13 days'`);
    expect(await list({ search: 'kitchen' })).toEqual(['lamp 100%', 'tap']);
    expect(await list({ search: 'EN/LA' })).toEqual(['lamp 100%']);
    expect(await list({ search: '100%' })).toEqual(['lamp 100%']);
    expect(await list({ search: '客' })).toEqual(['Bulb']);
    expect(await list({ search: '_' })).toEqual([]);
    expect(await list({ live: 'true' })).toEqual(['lamp 100%', 'tap', 'Bulb']);
    const unused_since = new Date(app.clock.now().getTime() - 30 * 86_400_000).toISOString();
    expect(await list({ unused_since })).toEqual(['tap', 'Bulb']);
    expect(await list({ unused_since, live: 'true', search: 'tap' })).toEqual(['tap']);
    expect(await count('/nodes')).toEqual({ live: 3, ended: 1, unused: 2, expiring: 1 });
    const expires_before = new Date(app.clock.now().getTime() + 14 * 86_400_000).toISOString();
    expect(await list({ expires_before })).toEqual(['Bulb']);
    await app.admin.post(`/nodes/${lamp}/rotate`, { overlap_hours: 1 }).expect(200);
    expect(await list({ in_overlap: 'true' })).toEqual(['lamp 100%']);
    await set(bulb, `expires_at = now() - interval '1 second'`);
    expect(await list({ live: 'true' })).toEqual(['lamp 100%', 'tap']);
    expect(await count('/nodes')).toEqual({ live: 2, ended: 2, unused: 1, expiring: 0 });
  });

  it('has the same filters for app credentials and operators', async () => {
    const service = await app.service();
    const { id } = await app.operator();
    const soon = new Date(app.clock.now().getTime() + 60_000).toISOString();
    const unused = { live: 'true', unused_since: soon };
    expect(await readAll(app, '/app-credentials', unused, 'app_id')).toEqual([service.appId]);
    await app.admin.delete(`/app-credentials/${service.appId}`).expect(204);
    await app.admin.delete(`/operators/${id}`).expect(204);
    expect(await readAll(app, '/app-credentials', { live: 'true' }, 'app_id')).toEqual([]);
    expect(await readAll(app, '/operators', { live: 'true' }, 'operator_id')).toEqual([]);
    expect(await readAll(app, '/operators', {}, 'operator_id')).toEqual([id]);
    expect(await count('/app-credentials')).toEqual({ live: 0, ended: 1, unused: 0, expiring: 0 });
  });
});

interface PlanNode {
  readonly 'Node Type': string;
  readonly 'Relation Name'?: string;
  readonly 'Index Name'?: string;
  readonly 'Actual Rows': number;
  readonly 'Actual Loops': number;
  readonly 'Rows Removed by Filter'?: number;
  readonly Plans?: readonly PlanNode[];
}

function flatten(node: PlanNode): PlanNode[] {
  return [node, ...(node.Plans ?? []).flatMap(flatten)];
}

/**
 * Enough that the random sample of ANALYZE does not decide the plan: it estimates the 20 disabled users at 0 to 50.
 * PostgreSQL 18 scans 5,000 members from an estimate of 40 on, and 15,000 members only above 100.
 */
const MEMBERS = 15_000;

describe('lists of 200,000 users, 20,000 nodes and their households', () => {
  let browser: Browser;
  // Without the statements of seals, which are no part of a page.
  const app = useApp({ variables: { ...UNLEASED, CONSOLE: 'on' }, settings: { auditSealIntervalSeconds: 3_600 } });

  /**
   * A transaction of a job that began before the rows were committed, or of the autovacuum of TEST_DATABASE_URL, keeps
   * their pages from being marked, and then the planner takes a scan in place of an index-only scan.
   * @returns whether all are marked
   */
  const vacuum = async (): Promise<boolean> => {
    const tables = ['users', 'nodes', 'app_credentials', 'households', 'household_members'];
    await app.database.query(`VACUUM ANALYZE ${tables.join(', ')}`);
    const unmarked = await app.database.query(
      'SELECT relname FROM pg_class WHERE relname = ANY ($1) AND relallvisible < relpages',
      [tables],
    );
    return unmarked.length === 0;
  };

  beforeAll(async () => {
    await app.database.query(`
      INSERT INTO users (id, email, password_hash, is_active, email_verified_at, created_at, updated_at)
        SELECT gen_random_uuid(), 'user-' || n || '@example' || n % 500 || '.org', 'x', n % 10000 > 0,
          CASE WHEN n % 10000 > 0 THEN now() END, now() - n * interval '1 minute', now() FROM generate_series(1, 200000) n;
      INSERT INTO nodes (id, household_id, room, name, key_digest, created_at, updated_at)
        SELECT gen_random_uuid(), gen_random_uuid(), 'room ' || n % 100, 'lamp ' || n, '\\x00', now(), now()
        FROM generate_series(1, 20000) n;
      INSERT INTO app_credentials (id, caller, target, key_digest, created_at, updated_at)
        SELECT gen_random_uuid(), 'service-' || n % 200, 'target-' || n, '\\x00', now() - n * interval '1 hour', now()
        FROM generate_series(1, 1000) n;
      INSERT INTO household_members (household_id, user_id, role, since)
        SELECT household.id, person.id, CASE number WHEN 30 THEN 'member' ELSE 'admin' END, now()
        FROM (SELECT id, row_number() OVER (ORDER BY id) AS number FROM households) AS household
        JOIN (SELECT id, row_number() OVER (ORDER BY is_active, id) AS number FROM users) AS person USING (number)
        WHERE number <= ${MEMBERS};
    `);
    await eventually('VACUUM marks every page as visible to all', vacuum);
    browser = await Browser.logIn(app);
  }, 300_000);

  /** @returns the plans of the reads of a table that a call makes, as PostgreSQL runs them again */
  const readPlans = async (call: () => PromiseLike<unknown>, table: string): Promise<PlanNode[]> => {
    const queries = jest.spyOn(Client.prototype, 'query');
    await call();
    const asked = (queries.mock.calls as unknown[][]).map(([query, values]) =>
      typeof query === 'string' ? { text: query, values } : (query as { text: string; values: unknown }),
    );
    queries.mockRestore();
    const own = asked.filter(({ text }) => /^\W*SELECT/.test(text) && new RegExp(`FROM "?${table}\\b`).test(text));
    const plans: PlanNode[] = [];
    for (const { text, values } of own) {
      const sql = `EXPLAIN (ANALYZE, FORMAT JSON) ${text}`;
      const [row] = await app.database.query<{ 'QUERY PLAN': { Plan: PlanNode }[] }>(sql, values as unknown[]);
      plans.push(row!['QUERY PLAN'][0]!.Plan);
    }
    return plans;
  };

  /** Adds up what PostgreSQL read for a call. */
  const explain = async (path: string, table: string) => {
    let body: unknown;
    const [route = '', query] = path.split('?');
    const search = () => app.admin.post(route, Object.fromEntries(new URLSearchParams(query)));
    const call = route.endsWith('/search') ? search : () => app.admin.get(path);
    const own = await readPlans(async () => ({ body } = await call().expect(200)), table);
    const plans = own.flatMap(flatten);
    const indexes = plans.flatMap((node) => node['Index Name'] ?? []);
    const scanned = plans.flatMap((node) => (node['Node Type'] === 'Seq Scan' ? (node['Relation Name'] ?? []) : []));
    const readRows = plans
      .filter((node) => node['Relation Name'] === table)
      .reduce(
        (sum, node) => sum + (node['Actual Rows'] + (node['Rows Removed by Filter'] ?? 0)) * node['Actual Loops'],
        0,
      );
    return { statements: own.length, indexes, scanned, readRows, page: body as ListPage };
  };

  it.each([
    ['/users/search?search=user-4711@', 'users', 'users_email_search_idx', 1],
    ['/users/search?search=missing', 'users', 'users_email_search_idx', 0],
    ['/users?disabled=true', 'users', 'users_disabled_idx', 20],
    ['/users?unverified=true', 'users', 'users_unverified_idx', 20],
    ['/nodes?search=p%204711', 'nodes', 'nodes_search_idx', 1],
  ])('%s reads only the %s that match, by an index', async (path, table, index, count) => {
    const { statements, indexes, readRows, page } = await explain(path, table);
    expect(page.items).toHaveLength(count);
    expect({ statements, indexes, readRows }).toEqual({ statements: 1, indexes: [index], readRows: count });
  });

  it.each([
    ['/households?without_admin=true', 21, ['household_members_admin_idx', 'users_disabled_idx']],
    ['/households?without_admin=true&sort=created_at', 21, ['household_members_admin_idx', 'users_disabled_idx']],
    ['/households?without_members=true&sort=created_at', 50, ['household_members_admin_idx']],
    ['/households?sort=created_at', 50, ['households_created_at_idx']],
  ])('%s finds %s households by indexes', async (path, count, expected) => {
    const { indexes, scanned, page } = await explain(path, 'households');
    expect(page.items).toHaveLength(count);
    expect({ scanned, indexes }).toEqual({ scanned: [], indexes: expect.arrayContaining(expected) as string[] });
  });

  it('finds the users of the last hour by an index', async () => {
    const created_since = new Date(Date.now() - 3_600_000).toISOString();
    const { indexes, readRows, page } = await explain(`/users?created_since=${created_since}`, 'users');
    expect(page.items).toHaveLength(50);
    expect(indexes).toEqual(['users_created_at_idx']);
    expect(readRows).toBeLessThan(65);
  });

  it.each(['/users?', '/users/search?search=example&', '/users?without_factor=true&'])(
    '%s reads no more rows for a later page than for the first one',
    async (path) => {
      const first = await explain(`${path}limit=100`, 'users');
      const second = await explain(`${path}limit=100&cursor=${first.page.next_cursor!}`, 'users');
      for (const { statements, readRows, page } of [first, second]) {
        expect(page.items).toHaveLength(100);
        expect({ statements, isBounded: readRows <= 101 }).toEqual({ statements: 1, isBounded: true });
      }
    },
  );

  it.each([
    ...[
      '',
      '/map',
      '/map?service=service-7',
      '/app-credentials',
      '/app-credentials?unused_since=2026-01-01T00:00:00Z',
      '/operators',
    ],
    ...['/nodes', '/nodes?search=4711', '/users', '/users?throttled=true', '/explain', '/audit-events'],
  ])('are shown by /console%s in less than 150 KB, from no more rows than it shows', async (path) => {
    let text = '';
    const call = async () => ({ text } = await browser.get(`/console${path}`).expect(200));
    const plans = await readPlans(call, '(users|nodes|app_credentials|operators|audit_events|\\(SELECT)');
    const shown = text.match(/<(tr|li)>/g)?.length ?? 0;
    const read = plans.reduce((sum, plan) => sum + plan['Actual Rows'] * plan['Actual Loops'], 0);
    // One more row of each list shows that there is another page.
    expect(read).toBeLessThanOrEqual(shown + plans.length);
    expect(text.length).toBeLessThan(150_000);
  });

  it('are counted in one statement', async () => {
    const { statements, page } = await explain('/nodes/summary', 'nodes');
    expect({ statements, page }).toEqual({ statements: 1, page: { live: 20_000, ended: 0, unused: 0, expiring: 0 } });
  });
});

describe('a sorted list', () => {
  it.each<[string, string, string, () => Promise<unknown>]>([
    ['/users', 'id', 'created_at', async () => app.user()],
    ['/users', 'email', 'email', async () => app.user()],
    ['/users/search', 'email', 'email', async () => app.user()],
    ['/nodes', 'node_id', 'created_at', async () => app.node()],
    ['/nodes', 'household_id', 'household_id', async () => app.node()],
    ['/households', 'created_at', 'created_at', async () => app.node()],
    ['/app-credentials', 'app_id', 'created_at', async () => app.service('sorted', `sorted-${randomUUID()}`)],
    ['/operators', 'operator_id', 'created_at', async () => app.operator()],
  ])('%s is sorted by %s (%s) in both directions over all pages', async (path, member, sort, make) => {
    for (let made = 0; made < 5; made += 1) await make();
    const all = await readAll(app, path, {}, member);
    const rising = await readAll(app, path, { sort }, member);
    expect(rising).toEqual(all.toSorted());
    expect(await readAll(app, path, { sort: `${sort}_desc` }, member)).toEqual(rising.toReversed());
  });

  it('refuses an order without an index, and a page after a row that was deleted meanwhile', async () => {
    expectInvalid(await app.admin.get('/nodes?sort=last_used_at'), '/sort');
    await app.user();
    const last = (await readAll(app, '/users', { sort: 'email' }, 'id')).at(-1)!;
    const cursor = Buffer.from(last).toString('base64url');
    expect(await readPage(app, '/users', { sort: 'email', cursor })).toEqual({ items: [], next_cursor: null });
    await app.admin.delete(`/users/${last}`).expect(204);
    expectInvalid(await app.admin.get(`/users?sort=email&cursor=${cursor}`), '/cursor');
  });
});
