import { createServer } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { problems } from '../../src/problems/problems.js';
import { Cli, useCli } from '../support/cli.js';
import { expectProblem } from '../support/expect-problem.js';
import { useApp } from '../support/use-app.js';

describe('platform-auth users', () => {
  const app = useApp();
  const cli = useCli(app);

  it('disables a user by e-mail address and enables it by id', async () => {
    const alice = await app.user();
    const { access_token } = await alice.logsIn();
    expect(await cli.ok('users', 'disable', alice.email)).toBe(`${alice.email} is disabled.\n`);
    expectProblem(await app.me(access_token), problems.invalidAccessToken);
    expectProblem(await app.login(alice.email), problems.invalidCredentials);
    expect(await cli.json('users', 'enable', alice.id)).toMatchObject({ id: alice.id, is_active: true });
    await alice.logsIn();
  });

  it('lists users and sessions, and revokes the sessions', async () => {
    const bob = await app.user();
    const { refresh_token } = await bob.logsIn();
    expect(await cli.ok('users', 'list')).toContain(bob.email);
    expect((await cli.json<{ items: object[] }>('users', 'sessions', bob.email)).items).toHaveLength(1);
    await cli.ok('users', 'revoke-sessions', bob.email);
    expectProblem(await app.refresh(refresh_token), problems.invalidRefreshToken);
    expect(await cli.ok('users', 'sessions', bob.id)).toContain('admin');
  });

  it('reports an unknown e-mail address', async () => {
    expect(await cli.fails('users', 'disable', 'unknown@example.org')).toMatch(/^No account has the e-mail address/);
  });
});

describe('platform-auth audit', () => {
  it('sends every filter, follows the pages up to the limit, and prints no control characters', async () => {
    const asked: URLSearchParams[] = [];
    const event = (id: number) => ({
      id: String(id),
      time: '2026-11-21T09:00:00.000Z',
      event: 'user.login.failed',
      actor: { door: 'user', id: `id-${id}` },
      subject: 'evil\u001b[2J',
      request_id: null,
      address: '127.0.0.1',
      count: 1,
      details: {},
    });
    const server = createServer((request, response) => {
      const { searchParams } = new URL(request.url!, 'http://x');
      asked.push(searchParams);
      const items = Array.from({ length: Number(searchParams.get('limit')) }, (_, index) => event(index));
      response.setHeader('content-type', 'application/json').end(JSON.stringify({ items, next_cursor: 'more' }));
    })
      .listen(0, '127.0.0.1')
      .unref();
    await once(server, 'listening');
    const cli = new Cli(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    const filters = [
      '--actor',
      'a',
      '--subject',
      's',
      '--event',
      'user.login.failed',
      '--since',
      '24h',
      '--until',
      '1h',
    ];
    const { items } = await cli.json<{ items: object[] }>('audit', ...filters, '--limit', '130');
    expect(items).toHaveLength(130);
    expect(asked.map((query) => [query.get('limit'), query.get('cursor')])).toEqual([
      ['100', null],
      ['30', 'more'],
    ]);
    const { since, until, ...exact } = Object.fromEntries(asked[0]!);
    expect(exact).toEqual({ actor: 'a', subject: 's', event: 'user.login.failed', limit: '100' });
    expect(Date.parse(until!) - Date.parse(since!)).toBeGreaterThanOrEqual(22.9 * 3_600_000);
    const text = await cli.ok('audit', '--limit', '1');
    expect(text).toContain('user id-0');
    expect(text).not.toContain('\u001b');
    server.close();
    cli.remove();
  });
});
