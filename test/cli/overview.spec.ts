import { randomUUID } from 'node:crypto';
import { applyFilters, type CredentialView } from '../../src/cli/remote/credential-commands.js';
import { DRAWINGS, toCalls } from '../../src/cli/remote/map.command.js';
import type { AppView } from '../../src/cli/remote/apps.command.js';
import { useCli } from '../support/cli.js';
import { useApp } from '../support/use-app.js';

const NOW = new Date('2026-11-22T00:00:00.000Z');
const DAY_MS = 86_400_000;
const inDays = (days: number): string => new Date(NOW.getTime() + days * DAY_MS).toISOString();
const credential = (more: Partial<AppView>): AppView => ({
  app_id: randomUUID(),
  caller: 'recipes',
  target: 'ocr',
  created_at: inDays(-100),
  updated_at: inDays(-100),
  last_used_at: inDays(-1),
  expires_at: null,
  revoked_at: null,
  rotated_at: null,
  previous_key_expires_at: null,
  ...more,
});

describe('the filters of a list', () => {
  const all: Record<string, CredentialView> = {
    used: credential({}),
    unused: credential({ last_used_at: inDays(-31) }),
    neverUsed: credential({ last_used_at: null }),
    new: credential({ last_used_at: null, created_at: inDays(-1) }),
    expired: credential({ expires_at: inDays(-1) }),
    revoked: credential({ revoked_at: inDays(-1), last_used_at: inDays(-40) }),
  };
  const namesOf = (filters: { live?: boolean; unusedFor?: number }): string[] => {
    const kept = applyFilters(Object.values(all), { live: false, ...filters }, NOW);
    return Object.keys(all).filter((name) => kept.includes(all[name]!));
  };

  it.each([
    [{}, ['used', 'unused', 'neverUsed', 'new', 'expired', 'revoked']],
    [{ live: true }, ['used', 'unused', 'neverUsed', 'new']],
    [{ unusedFor: 30 * DAY_MS }, ['unused', 'neverUsed', 'revoked']],
    [{ live: true, unusedFor: 30 * DAY_MS }, ['unused', 'neverUsed']],
  ])('%j keep %j', (filters, names) => {
    expect(namesOf(filters)).toEqual(names);
  });
});

describe('the map of the platform', () => {
  const calls = toCalls(
    [
      credential({}),
      credential({ caller: 'mcp', target: 'recipes', last_used_at: null }),
      credential({ caller: 'logging', target: 'auth', expires_at: inDays(3) }),
      credential({ caller: 'gone', revoked_at: inDays(-1) }),
    ],
    NOW,
  );

  it('holds the live calls, with last use and expiry', () => {
    expect(calls.map(({ caller, target, state, label }) => [caller, target, state, label])).toEqual([
      ['logging', 'auth', 'expiring', 'last used 2026-11-21, expires 2026-11-25'],
      ['mcp', 'recipes', 'unused', 'never used'],
      ['recipes', 'ocr', 'ok', 'last used 2026-11-21'],
    ]);
  });

  it('is drawn in each format, with a difference between the states', () => {
    expect(DRAWINGS.mermaid(calls)).toMatch(
      /^flowchart LR\n[^]*s2\["mcp"\]\n[^]*s2 -\.->\|"never used"\| s3\n[^]*linkStyle 0 stroke:#b8461b/,
    );
    expect(DRAWINGS.dot(calls)).toMatch(/"mcp" -> "recipes" \[label="never used", .*style=dashed\];\n[^]*\}$/);
    expect(DRAWINGS.svg(calls)).toMatch(
      /^<svg [^]*stroke-dasharray[^]*recipes → ocr: last used 2026-11-21[^]*<\/svg>$/,
    );
    expect(DRAWINGS.text(calls)).toMatch(/│ logging +│ auth +│ expiring +│/);
  });

  it('of a platform without credentials is empty in each format', () => {
    expect(Object.values(DRAWINGS).map((draw) => draw([]).split('\n')[0]!.split(' ')[0])).toEqual([
      'none',
      'flowchart',
      'digraph',
      '<svg',
    ]);
  });
});

describe('platform-auth', () => {
  const app = useApp();
  const cli = useCli(app);

  it('status shows health, and counts credentials when it has the admin key', async () => {
    await app.node();
    expect(await cli.ok('status')).toMatch(/status +ok\ndatabase +up\n[^]*nodes +1 live, 0 revoked or expired\n/);
    const withoutKey = cli.with({ ADMIN_API_KEY: '' });
    expect(await withoutKey.json('status')).toMatchObject({ health: { status: 'ok' }, nodes: null });
  });

  it('map draws the credentials of the service', async () => {
    const { caller, target } = await app.service();
    expect(await cli.ok('map', '--format', 'dot')).toContain(`"${caller}" -> "${target}"`);
    expect(await cli.json('map')).toMatchObject({
      calls: expect.arrayContaining([expect.objectContaining({ caller })]),
    });
  });

  it('nodes update changes room, name and expiry, and refuses to change nothing', async () => {
    const { nodeId } = await app.node();
    const changes = ['--room', 'attic', '--name', 'lamp', '--expires', '2099-01-01'];
    expect(await cli.json('nodes', 'update', nodeId, ...changes)).toMatchObject({
      room: 'attic',
      name: 'lamp',
      expires_at: '2099-01-01T00:00:00.000Z',
    });
    expect(await cli.json('nodes', 'update', nodeId, '--expires', 'never')).toMatchObject({ expires_at: null });
    const { code, stderr } = await cli.run('nodes', 'update', nodeId);
    expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining('nothing to change') });
  });

  it('lists only what the filters keep', async () => {
    const { nodeId } = await app.node();
    expect(await cli.fails('nodes', 'revoke', nodeId)).toMatch(
      /^This revokes the node [^/]+\/[^/]+ permanently\. Add --yes/,
    );
    await cli.ok('nodes', 'revoke', nodeId, '--yes');
    expect(await cli.ok('nodes', 'list')).toContain(nodeId);
    expect(await cli.ok('nodes', 'list', '--live')).not.toContain(nodeId);
  });
});
