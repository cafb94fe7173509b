import { randomUUID } from 'node:crypto';
import { useCli } from '../support/cli.js';
import { useApp } from '../support/use-app.js';

describe('platform-auth operators', () => {
  const app = useApp();
  const cli = useCli(app);

  it('adds an operator, whose key works as ADMIN_API_KEY within its scopes, and shows the key once', async () => {
    const added = await cli.json<Record<string, string>>(
      'operators',
      'add',
      'Alice',
      '--scopes',
      'read,users',
      '--expires',
      '2d',
    );
    expect(added).toMatchObject({ name: 'alice', scopes: ['read', 'users'] });
    expect(Date.parse(added.expires_at!) - Date.now()).toBeGreaterThan(1.9 * 86_400_000);
    const asAlice = cli.with({ ADMIN_API_KEY: added.api_key! });
    expect(await asAlice.ok('nodes', 'list')).toBe('none\n');
    expect(await asAlice.ok('status')).toMatch(/nodes +0 live/);
    expect(await asAlice.fails('nodes', 'revoke', randomUUID(), '--yes')).toMatch(
      /missing_scope, 403[^]*It needs the scope nodes\.\n/,
    );
    const shown = await cli.ok('operators', 'list');
    expect(shown).toMatch(/alice[^]*read users/);
    expect(shown).not.toContain(added.api_key);
    expect(await cli.fails('operators', 'add', 'ALICE', '--scopes', 'read')).toMatch(/operator_exists, 409/);
  });

  it('prints the key for people with what it is for', async () => {
    expect(await cli.ok('operators', 'add', 'bob', '--scopes', 'nodes')).toMatch(
      /name +bob\napi_key +pa_admin_[\w-]{43}\nscopes +nodes\n\nThe key is shown only this once\./,
    );
  });

  it('rotates a key by name, and keeps the old one until the first use of the new one', async () => {
    const carol = await app.operator(['nodes'], 'carol');
    const { api_key } = await cli.json<{ api_key: string }>('operators', 'rotate', 'Carol');
    await carol.as().get('/nodes').expect(200);
    await app.asAdmin(api_key).get('/nodes').expect(200);
    await carol.as().get('/nodes').expect(401);
    expect(await cli.ok('operators', 'rotate', carol.id, '--overlap-hours', '0')).toMatch(
      /pa_admin_[^]*shown only this once[^]*The old one is refused from now on\./,
    );
  });

  it('revokes an operator by name or id, with a confirmation', async () => {
    const [dave, erin] = [await app.operator(['nodes'], 'dave'), await app.operator(['nodes'], 'erin')];
    expect(await cli.fails('operators', 'revoke', 'dave')).toBe(
      'This revokes the operator dave permanently. Add --yes to confirm. It was not done.\n',
    );
    await dave.as().get('/nodes').expect(200);
    expect(await cli.ok('operators', 'revoke', 'dave', '--yes')).toBe('Operator dave is revoked.\n');
    await dave.as().get('/nodes').expect(401);
    await cli.ok('operators', 'revoke', erin.id, '--yes');
    await erin.as().get('/nodes').expect(401);
    expect(await cli.fails('operators', 'revoke', 'dave', '--yes')).toMatch(
      /No operator that is not revoked has the name dave/,
    );
    const { items } = await cli.json<{ items: { name: string }[] }>('operators', 'list', '--live');
    expect(items.map(({ name }) => name)).not.toContain('dave');
  });

  it('is told by the audit log and by explain who did what', async () => {
    const frank = await app.operator(['nodes'], 'frank');
    const node = await app.node();
    await frank.as().delete(`/nodes/${node.nodeId}`).expect(204);
    expect(await cli.ok('audit', '--actor', 'operator:frank', '--event', 'admin.node.revoked')).toMatch(
      /admin\.node\.revoked[^]*operator:frank/,
    );
    expect(await cli.ok('audit', '--event', 'admin.operator.added', '--limit', '1')).toMatch(/admin[^]*operator:frank/);
    expect(await cli.ok('explain', 'node', node.nodeId)).toMatch(
      /revoked since \S+ by request \S+ of operator:frank\n/,
    );
  });

  it('counts in status only what the key may read', async () => {
    const { key } = await app.operator(['nodes']);
    const status = await cli.with({ ADMIN_API_KEY: key }).json<Record<string, unknown>>('status');
    expect(status).toMatchObject({ nodes: { live: expect.any(Number) as number }, app_credentials: null });
  });

  it.each(['', 'root', 'read,read', 'read nodes', 'READ'])('exits with 2 for the scopes %p', async (scopes) => {
    const { code, stderr } = await cli.run('operators', 'add', 'grace', '--scopes', scopes);
    expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining('one or more of these') as string });
  });
});
