import { writeFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { json } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { Table } from '../../src/cli/tables.js';
import { generateKey } from '../../src/foundation/crypto/secret.js';
import { eventually } from '../../tools/eventually.js';
import { Cli } from '../support/cli.js';
import { serve } from '../support/serve.js';

/** A service with many users and nodes, which answers pages up to the one that the test allows. */
class LongLists {
  readonly asked: URLSearchParams[] = [];
  readonly paths: string[] = [];
  allowed = Infinity;
  close: () => void = () => undefined;

  constructor(private readonly total: number) {}

  async listen(): Promise<Cli> {
    const { url, close } = await serve((request, response) => void this.answer(request, response));
    this.close = close;
    return new Cli(url);
  }

  private async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(request.url!, 'http://x');
    // A search has its query in the body.
    const asked =
      request.method === 'POST' ? new URLSearchParams((await json(request)) as Record<string, string>) : searchParams;
    this.paths.push(pathname);
    this.asked.push(asked);
    const start = Number(asked.get('cursor') ?? 0);
    const end = Math.min(this.total, start + Number(asked.get('limit')));
    const items = Array.from({ length: end - start }, (_, index) => toItem(start + index));
    const body = JSON.stringify({ items, next_cursor: end < this.total ? String(end) : null });
    const page = this.asked.length;
    await eventually('the page is allowed', () => page <= this.allowed);
    response.setHeader('content-type', 'application/json').end(body);
  }
}

function toItem(index: number) {
  const common = { created_at: '2026-11-21T09:00:00.000Z', last_used_at: null, expires_at: null, revoked_at: null };
  return { ...common, id: `id-${index}`, node_id: `id-${index}`, email: `user-${index}@example.org`, is_active: true };
}

describe('the lists of platform-auth', () => {
  let lists: LongLists;
  let cli: Cli;

  const use = async (total: number): Promise<void> => {
    lists = new LongLists(total);
    cli = await lists.listen();
  };

  afterEach(() => lists.close());

  it.each(['users', 'nodes'])('%s list shows 50 items, and says how to see more', async (group) => {
    await use(200);
    const { code, stdout, stderr } = await cli.run(group, 'list');
    expect({ code, shown: stdout.match(/│ id-\d+ /g)?.length }).toEqual({ code: 0, shown: 50 });
    expect(stderr).toBe('Only the first 50: --limit shows more, and --all shows every one.\n');
    expect(lists.asked.map((query) => query.get('limit'))).toEqual(['50']);
    const json = await cli.run(group, 'list', '--json');
    const { items, has_more } = JSON.parse(json.stdout) as { items: object[]; has_more: boolean };
    expect([items.length, has_more, json.stderr]).toEqual([50, true, stderr]);
  });

  it('--limit follows pages, and a list that ends with it has no more', async () => {
    await use(130);
    expect((await cli.ok('users list --limit 130')).match(/│ id-\d+ /g)).toHaveLength(130);
    expect(lists.asked.map((query) => [query.get('limit'), query.get('cursor')])).toEqual([
      ['100', null],
      ['30', '100'],
    ]);
    expect(await cli.json('users list --limit 130')).toMatchObject({ has_more: false });
    expect((await cli.run('users list --limit 129')).stderr).toMatch(/^Only the first 129/);
  });

  it('an empty list is an empty list', async () => {
    await use(0);
    expect(await cli.ok('users list')).toBe('none\n');
    expect(await cli.json('users list --all')).toEqual({ items: [], has_more: false });
  });

  it('--all shows every one of 2,000 users, with one request for each hundred', async () => {
    await use(2_000);
    const { items } = await cli.json<{ items: { id: string }[] }>('users list --all');
    expect(items.map(({ id }) => id)).toEqual(Array.from({ length: 2_000 }, (_, index) => `id-${index}`));
    expect(lists.asked).toHaveLength(20);
    const { code, stderr } = await cli.run('users list --all --limit 7');
    expect({ code, stderr }).toMatchObject({ code: 2, stderr: expect.stringMatching(/--all.*--limit/) as string });
  });

  it.each([
    [[], 'user-99@example.org', 'user-100@example.org'],
    [['--json'], '"email":"user-99@example.org"', '"email":"user-100@example.org"'],
  ])('%j prints each page before it asks for the next one', async (format, last, next) => {
    await use(250);
    lists.allowed = 1;
    const listing = cli.start('users', 'list', '--all', ...format);
    await eventually('the first page', () => listing.shown().includes(last));
    await eventually('it asks on', () => lists.asked.length === 2);
    expect(listing.shown()).not.toContain(next);
    lists.allowed = 3;
    expect(await listing.ended).toMatchObject({ code: 0, stdout: expect.stringContaining('user-249@') as string });
  });

  it('sends every filter to the service', async () => {
    await use(0);
    const flags = ['--disabled', '--unverified', '--without-factor', '--throttled', '--created-since', '2026-01-01'];
    await cli.ok('users', 'list', '--search', '100%_', '--email', 'a@example.org', ...flags);
    await cli.ok('nodes list --search kitchen --live --unused-for 30d');
    await cli.ok('apps list --caller recipes');
    const [users, nodes, apps] = lists.asked.map((query) => Object.fromEntries(query));
    expect(users).toEqual({
      limit: '50',
      search: '100%_',
      email: 'a@example.org',
      disabled: 'true',
      unverified: 'true',
      without_factor: 'true',
      throttled: 'true',
      created_since: '2026-01-01T00:00:00.000Z',
    });
    const { unused_since, ...ofNodes } = nodes!;
    expect(ofNodes).toEqual({ limit: '50', search: 'kitchen', live: 'true' });
    expect((Date.now() - Date.parse(unused_since!)) / 86_400_000).toBeCloseTo(30, 1);
    expect(apps).toEqual({ limit: '50', caller: 'recipes' });
  });

  it('status asks for two summaries and the work in the background, and fails when that is overdue', async () => {
    const counts = { live: 20_000, ended: 3, unused: 2, expiring: 1, items: [] };
    const work = {
      items: [
        { name: 'audit_unsealed_seconds', seconds: 7_300, is_overdue: true },
        { name: 'purge_age_seconds', seconds: 90, is_overdue: false },
      ],
    };
    const review = {
      weak_settings: [{ variable: 'BCRYPT_COST', detail: 'set at least 10' }],
      root_key_first_seen_at: new Date(Date.now() - 400.5 * 86_400_000).toISOString(),
    };
    const base = '/api/v0/admin';
    const paths: string[] = [];
    const { url, close } = await serve((request, response) => {
      paths.push(request.url!.replace(/(expires_before)=.*/, '$1'));
      const health = { status: 'ok', details: {} };
      response.setHeader('content-type', 'application/json');
      const others: Record<string, object> = { '/health': health, [`${base}/background-work`]: work };
      const answer = { ...others, [`${base}/configuration-review`]: review }[request.url!] ?? counts;
      response.end(JSON.stringify(answer));
    });
    await use(0);
    const { code, stdout, stderr } = await cli.run(`status --url ${url}`);
    expect(stdout).toContain('20000 live, 3 revoked or expired, 2 not used for 30 days, 1 expiring within 14 days\n');
    expect(stdout).toMatch(/audit unsealed +121 min: overdue\npurge age +90 s\n/);
    expect([code, stderr]).toEqual([1, expect.stringContaining('Overdue: audit_unsealed_seconds.')]);
    expect(stdout).toMatch(/root key +in use since 20\S+ \(400 days\)\nBCRYPT_COST +set at least 10\n/);
    const keys = ['nodes/summary', 'app-credentials/summary', 'operators?live=true&limit=100&expires_before'];
    const counted = [...keys, 'app-credentials/unused-scopes', 'households?without_admin=true', 'findings'];
    const admin = [...counted, 'background-work', 'configuration-review'];
    expect(paths).toEqual(['/health', ...admin.map((path) => `/api/v0/admin/${path}`)]);
    close();
  });
});

describe('a server at a wrong address', () => {
  let answer: (response: ServerResponse, url: URL) => void;
  let server: Awaited<ReturnType<typeof serve>>;
  let cli: Cli;

  beforeAll(async () => {
    server = await serve((request, response) => {
      response.setHeader('content-type', 'application/json');
      answer(response, new URL(request.url!, 'http://x'));
    });
    cli = new Cli(server.url);
    writeFileSync(cli.path('map.json'), JSON.stringify({ services: { auth: { url: server.url } } }));
  });
  afterAll(() => server.close());

  const MAP = ['--map', 'map.json'];
  const LISTING = [
    ['users', 'list', '--all'],
    ['users', 'show', 'alice@example.org'],
    ['nodes', 'list'],
    ['map'],
    ['audit'],
    ['audit', 'export'],
    ['apply', ...MAP, '--to', 'json', '--output', 'out', '--root-key'],
    ['doctor', ...MAP],
  ];
  const PUBLISHED: Readonly<Record<string, object>> = {
    '/health': { status: 'ok', details: {} },
    '/.well-known/jwks.json': { keys: [] },
    '/.well-known/oauth-authorization-server': { issuer: 'auth' },
  };
  const answerWith = (toBody: (url: URL) => string) => {
    answer = (response, url) =>
      response.end(url.pathname in PUBLISHED ? JSON.stringify(PUBLISHED[url.pathname]) : toBody(url));
  };

  it.each([...LISTING, ['status'], ['nodes', 'show', 'x'], ['leaked', 'key.txt']])(
    'is refused when its answer does not end: %s %s',
    async (...words) => {
      writeFileSync(cli.path('key.txt'), generateKey('pa_node_'));
      answer = (response) => void pipeline(Readable.from(endlessBody()), response).catch(() => undefined);
      expect(await cli.fails(...words)).toMatch(
        new RegExp(`^${server.url} answered with more than 16 MiB, which this service never does\\. Correct --url`),
      );
    },
  );

  it.each(['{}', '[]', 'null', '7', '{"items":{}}', '{"items":[]}', '{"items":[null],"next_cursor":null}'])(
    'is refused when it answers with %s',
    async (body) => {
      answerWith(() => body);
      for (const words of [...LISTING, ['status'], ['leaked', 'key.txt']])
        expect([words, await cli.fails(...words)]).toEqual([
          words,
          expect.stringMatching(
            /^http:\S+ (does not answer as this service does|answered 200, but not as this service does)/,
          ),
        ]);
    },
  );

  const PROBLEM = { code: 'forbidden', title: 'Forbidden', detail: 'No' };
  it.each([
    { code: 'missing_scope', scopes: 'apps' },
    { errors: {} },
    { errors: [null] },
    { errors: [{ pointer: 7, detail: 'x' }] },
    { title: {} },
    { detail: undefined },
  ])('is refused when its problem document has another shape: %j', async (members) => {
    answer = (response) => response.writeHead(403).end(JSON.stringify({ ...PROBLEM, ...members }));
    for (const words of [...LISTING.slice(0, 6), ['status']])
      expect(await cli.fails(...words)).toMatch(/^http:\S+ answered 403, but not as this service does/);
  });

  it('sends no escape codes to the terminal, neither in a problem document nor as the name of a component', async () => {
    const evil = '\u001b]0;x\u0007\n\u009b2J';
    const problem = { title: evil, detail: evil, code: evil, request_id: evil };
    answer = (response) =>
      response.writeHead(429, { 'retry-after': '\u009b2J' }).end(JSON.stringify({ ...problem, scopes: [evil] }));
    const lines = ['\ufffd]0;x\ufffd\ufffd\ufffd2J (\ufffd]0;x\ufffd\ufffd\ufffd2J, 429).'];
    lines.push('  Try again in \ufffd2J seconds.', '  request id \ufffd]0;x\ufffd\ufffd\ufffd2J', '');
    expect((await cli.fails('users list')).split('\n')).toEqual(lines);
    const details = { [evil]: { status: evil, message: evil } };
    answer = (response, { pathname }) =>
      pathname === '/health'
        ? response.end(JSON.stringify({ status: evil, details }))
        : response.writeHead(404).end(JSON.stringify({ ...PROBLEM, code: 'not_found' }));
    expect((await cli.run('status')).stdout).not.toMatch(/[^\P{Cc}\n]/u);
  });

  const toPage = (items: object[], next_cursor: string) => JSON.stringify({ items, next_cursor });

  it.each([
    [
      'goes around in a circle',
      'answers with a list that never ends',
      ({ searchParams }: URL) => toPage([{}], String((Number(searchParams.get('cursor')) + 1) % 7)),
    ],
    ['repeats its cursor', 'answers with a list that never ends', () => toPage([{}], 'more')],
    [
      'continues an empty page',
      'answers with a list that never ends',
      ({ searchParams }: URL) => toPage([], `${searchParams.get('cursor')}1`),
    ],
    [
      'lists more than fits into memory',
      'lists more than 1000000 items',
      ({ searchParams }: URL) => toPage(Array<object>(400_000).fill({}), `${searchParams.get('cursor')}1`),
    ],
  ])('is refused when it %s', async (_what, refusal, toBody) => {
    answerWith(toBody);
    for (const words of [['map'], ['doctor', ...MAP]])
      expect(await cli.fails(...words)).toBe(`${server.url} ${refusal}. Is the address right?\n`);
  });
});

function* endlessBody(): Generator<Buffer> {
  for (;;) yield Buffer.alloc(2 ** 20, '[');
}

describe('a table whose rows arrive later', () => {
  it('keeps its columns while rows fit, and begins again with wider ones', () => {
    const table = new Table(['id']);
    const [first, second, third] = [[{ id: 'abc' }], [{ id: 'a' }], [{ id: 'abcdef' }]];
    expect(table.add(first)).toBe('┌─────┐\n│ id  │\n│ abc │\n');
    expect(table.add(second)).toBe('│ a   │\n');
    expect(table.add([])).toBe('');
    expect(table.add(third)).toBe('└─────┘\n┌────────┐\n│ id     │\n│ abcdef │\n');
    expect(table.add(second)).toBe('│ a      │\n');
    expect(table.end()).toBe('└────────┘\n');
  });
});
