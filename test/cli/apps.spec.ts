import { problems } from '../../src/problems/problems.js';
import { useCli } from '../support/cli.js';
import { expectProblem } from '../support/expect-problem.js';
import { useApp } from '../support/use-app.js';

describe('platform-auth apps and explain', () => {
  const app = useApp();
  const cli = useCli(app);

  it('lists and shows credentials without their keys', async () => {
    const service = await app.service();
    const { items } = await cli.json<{ items: object[] }>('apps', 'list', '--caller', service.caller);
    expect(items).toMatchObject([{ app_id: service.appId, target: service.target }]);
    const shown = (await cli.ok('apps', 'list')) + (await cli.ok('apps', 'show', service.appId));
    expect(shown).toContain(service.caller);
    expect(shown).not.toContain(service.appKey);
  });

  it('rotates a key, shows the new one once, and keeps the old one until the first use of the new one', async () => {
    const service = await app.service();
    const { app_key } = await cli.json<{ app_key: string }>('apps', 'rotate', service.appId);
    await app.validateApp(service.headers).expect(200);
    await app.validateApp({ ...service.headers, 'X-Platform-App-Key': app_key }).expect(200);
    expectProblem(await app.validateApp(service.headers), problems.invalidAppCredentials);
    expect(await cli.ok('apps', 'rotate', service.appId, '--overlap-hours', '1')).toMatch(
      /pa_app_[^]*shown only this once/,
    );
  });

  it('mints a credential that is valid at its target until it expires', async () => {
    const pair = ['--caller', 'recipes', '--target', 'mint-target'];
    const minted = await cli.json<Record<string, string>>('apps', 'mint', ...pair, '--expires', '2d');
    const headers = { 'X-Platform-App-Id': minted.app_id!, 'X-Platform-App-Key': minted.app_key! };
    await app.validateApp(headers, { target: 'mint-target' }).expect(200);
    expect(Date.parse(minted.expires_at!) - Date.now()).toBeGreaterThan(1.9 * 86_400_000);
    const said = await cli.fails('apps', 'mint', ...pair);
    expect(said).toMatch(/app_credential_exists, 409/);
  });

  it('revokes a credential, and explain reports when and by which request', async () => {
    const service = await app.service();
    expect(await cli.ok('apps', 'revoke', service.appId, '--yes')).toBe(
      `App credential ${service.appId} is revoked.\n`,
    );
    expectProblem(await app.validateApp(service.headers), problems.invalidAppCredentials);
    const { reasons } = await cli.json<{ reasons: object[] }>('explain', 'app', service.appId);
    expect(reasons).toMatchObject([{ code: 'revoked', request_id: expect.stringMatching(/^[\w-]{36}$/) as string }]);
    expect(await cli.ok('explain', 'app', service.appId)).toMatch(
      /refused now:\n {2}revoked since 20\S+ by request \S+ of admin\n/,
    );
  });

  it('explains another target, an unknown id and a rotated node', async () => {
    const [service, node] = [await app.service(undefined, 'auth'), await app.node()];
    expect(await cli.ok('explain', 'app', service.appId, '--target', 'ocr')).toMatch(
      /other_target\n {4}It is valid at auth only/,
    );
    expect(await cli.ok('explain', 'node', 'nonsense')).toMatch(/refused now:\n {2}unknown\n[^]*never accepted/);
    const { api_key } = await cli.json<{ api_key: string }>('nodes', 'rotate', node.nodeId);
    expect(await cli.ok('explain', 'node', node.nodeId)).toMatch(/accepted now[^]*is valid too, until 20/);
    await app.validateNode(`${node.nodeId}:${api_key}`).set(service.headers).expect(200);
    expect(await cli.ok('explain', 'node', node.nodeId)).toMatch(
      new RegExp(`would be refused:\\n {2}key_rotated[^]*overlap_ended[^]*Last accepted at \\S+ for ${service.caller}`),
    );
  });
});
