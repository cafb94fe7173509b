import type { AddressInfo } from 'node:net';
import { randomBytes, randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { eventually } from '../../tools/eventually.js';
import { computeDigest, generateKey } from '../../src/foundation/crypto/secret.js';
import { problems } from '../../src/foundation/problems/problems.js';
import { Home } from '../support/home.js';
import { useCli } from '../support/cli.js';
import { expectProblem } from '../support/expect-problem.js';
import { ADMIN_KEY } from '../support/settings.js';
import { useApp } from '../support/use-app.js';
import { DRAWINGS, toCalls } from '../../src/cli/remote/map.command.js';
import type { AppCredentialResponse } from '../../src/api/admin/app-credentials.admin.controller.js';

const app = useApp();
const cli = useCli(app);

describe('platform-auth apps and explain', () => {
  it('lists and shows credentials without their keys', async () => {
    const service = await app.service();
    const { items } = await cli.json<{ items: object[] }>(`apps list --caller ${service.caller}`);
    expect(items).toMatchObject([{ app_id: service.appId, target: service.target }]);
    const shown = (await cli.ok('apps list')) + (await cli.ok(`apps show ${service.appId}`));
    expect(shown).toContain(service.caller);
    expect(shown).not.toContain(service.appKey);
  });

  it('rotates a key, shows the new one once, and keeps the old one until the rotation is finished', async () => {
    const service = await app.service();
    const { app_key } = await cli.json<{ app_key: string }>(`apps rotate ${service.appId}`);
    const next = { ...service.headers, 'X-Platform-App-Key': app_key };
    for (const headers of [next, service.headers]) await app.validateApp(headers).expect(200);
    expect(await cli.ok(`explain app ${service.appId}`)).toMatch(
      /The current key was last accepted at \S+\.\nThe old key was last accepted at \S+\.$/m,
    );
    expect(await cli.ok(`apps rotate ${service.appId} --finish`)).toMatch(/only the newest key is valid/);
    expectProblem(await app.validateApp(service.headers), problems.invalidAppCredentials);
    await app.validateApp(next).expect(200);
    expect(await cli.ok(`apps rotate ${service.appId} --overlap-hours 1`)).toMatch(/pa_app_[^]*shown only this once/);
    expect((await cli.run(`apps rotate ${service.appId} --overlap-hours 1 --finish`)).code).toBe(2);
  });

  it.each([
    ['apps issue --caller full --target disk', 'App credential'],
    ['operators issue full-disk --scopes read', 'Operator'],
    ['nodes issue --household 5b1c7a9e-0d35-4c8e-9a57-6f0b1f4f2a10 --room full --name disk', 'Node'],
    ['nodes issue --household 5b1c7a9e-0d35-4c8e-9a57-6f0b1f4f2a10 --room env --name disk --format env', 'Node'],
  ])('%s names what is live when its key cannot be written', async (line, name) => {
    const { code, stderr } = await cli.runInto('/dev/full', line);
    expect(code).toBe(1);
    expect(stderr).toMatch(new RegExp(`The key is lost. ${name} [0-9a-f-]{36} is live: rotate it, or revoke it.\n$`));
    const { code: ended, stderr: said } = await cli.runIntoClosedPipe(line.replaceAll('disk', 'pipe'));
    expect({ ended, said }).toEqual({ ended: 1, said: expect.stringContaining('The key is lost.') });
  });

  it('revokes the credentials of a file with one confirmation', async () => {
    const [one, two] = [await app.service(), await app.service()];
    writeFileSync(cli.path('ids'), `${one.appId}\n${two.appId} ${randomUUID()}\n`);
    expect(await cli.fails(`apps revoke --file ${cli.path('ids')}`)).toBe(
      'This revokes 3 app credentials permanently. Add --yes to confirm. It was not done.\n',
    );
    await app.validateApp(one.headers).expect(200);
    const done = 'App credentials that are revoked now: 2.\n';
    expect(await cli.ok(`apps revoke --file ${cli.path('ids')} --yes`)).toBe(done);
    for (const { headers } of [one, two]) expectProblem(await app.validateApp(headers), problems.invalidAppCredentials);
    writeFileSync(cli.path('ids'), 'app_id,caller\n');
    expect(await cli.fails(`apps revoke --file ${cli.path('ids')} --yes`)).toMatch(/something else than UUIDs/);
    expect(await cli.fails(`apps revoke --file ${cli.path('missing')}`)).toMatch(/missing/);
    expect((await cli.run('apps revoke')).code).toBe(2);
  });

  it('revokes the nodes of a household or room, and warns of nodes in one place', async () => {
    const household = randomUUID();
    const register = (room: string) => [
      ...['nodes', 'issue', '--household', household, '--room', room, '--name', 'lamp'],
    ];
    for (const room of ['hall', 'hall 2', 'attic'])
      expect((await cli.run(...register(room))).stderr).not.toContain('Several');
    const warning = `Several live nodes have the same household, room and name: ${household} hall/lamp (2).`;
    expect((await cli.run(...register('hall'))).stderr).toContain(warning);
    const list = ['nodes', 'list', '--household', household];
    expect((await cli.run(...list)).stderr).toContain(warning);
    const revoke = ['nodes', 'revoke', '--household', household, '--yes'];
    expect(await cli.json(...revoke, '--room', 'hall')).toMatchObject({
      revoked: [expect.any(String), expect.any(String)],
    });
    expect((await cli.run(...list)).stderr).not.toContain('Several');
    expect(await cli.ok(...revoke)).toBe('Nodes that are revoked now: 2.\n');
    expect((await cli.json<{ items: object[] }>(...list, '--live')).items).toEqual([]);
  });

  it('issues a credential that is valid at its target until it expires', async () => {
    const pair = ['--caller', 'recipes', '--target', 'issue-target'];
    const issued = await cli.json<Record<string, string>>('apps', 'issue', ...pair, '--expires', '2d');
    const headers = { 'X-Platform-App-Id': issued.app_id!, 'X-Platform-App-Key': issued.app_key! };
    await app.validateApp(headers, { target: 'issue-target' }).expect(200);
    expect(Date.parse(issued.expires_at!) - Date.now()).toBeGreaterThan(1.9 * 86_400_000);
  });

  it('names the live credential of a pair that has one, and how to get a new key', async () => {
    const revoked = await app.service('recipes', 'taken-target');
    await app.admin.delete(`/app-credentials/${revoked.appId}`).expect(204);
    const { appId } = await app.service('recipes', 'taken-target');
    const said = await cli.fails('apps issue --caller recipes --target taken-target');
    expect(said).toMatch(/app_credential_exists, 409/);
    expect(said).toContain(
      `\n  The live credential is ${appId}. To get a new key: platform-auth apps rotate ${appId}\n`,
    );
  });

  it('restricts a credential to scopes, explains a missing one, and lifts the restriction', async () => {
    const pair = ['--caller', 'recipes', '--target', 'scoped-target'];
    const issued = await cli.ok('apps', 'issue', ...pair, '--scopes', 'documents:read,documents:write');
    expect(issued).toMatch(/\nscopes +documents:read documents:write\n/);
    const [app_id = ''] = /(?<=^app_id +)\S+/m.exec(issued) ?? [];
    expect(await cli.ok(`apps update ${app_id} --scopes documents:read`)).toMatch(
      /^scope_uses +documents:read \(never\)$/m,
    );
    expect(await cli.ok(`explain app ${app_id} --scope documents:write`)).toMatch(
      /missing_scope\n {4}It has these scopes only: documents:read\./,
    );
    expect(await cli.json(`apps update ${app_id} --scopes all`)).toMatchObject({ scopes: null });
    const { code } = await cli.run(`apps update ${app_id} --scopes Documents`);
    expect(code).toBe(2);
  });

  it('restricts a node to targets, and explains why another service refuses it', async () => {
    const { nodeId } = await app.node();
    expect(await cli.ok(`nodes update ${nodeId} --targets ocr,speech`)).toMatch(/^targets +ocr speech$/m);
    expect(await cli.ok(`explain node ${nodeId} --target recipes`)).toMatch(
      /refused now:\n {2}target\n {4}It is valid at ocr, speech only\./,
    );
    expect(await cli.json(`nodes update ${nodeId} --targets all`)).toMatchObject({ targets: null });
    const [household, room] = [randomUUID(), ['--room', 'hall', '--name', 'lamp']];
    const line = ['nodes', 'issue', '--household', household, ...room, '--targets', 'ocr', '--json'];
    const registered = JSON.parse((await cli.run(...line)).stdout) as object;
    expect(registered).toMatchObject({ household_id: household, targets: ['ocr'] });
    await cli.ok(`nodes revoke --household ${household} --yes`);
  });

  it('revokes a credential, and explain reports when and by which request', async () => {
    const service = await app.service();
    expect(await cli.ok(`apps revoke ${service.appId} --yes`)).toBe(`App credential ${service.appId} is revoked.\n`);
    expectProblem(await app.validateApp(service.headers), problems.invalidAppCredentials);
    const { reasons } = await cli.json<{ reasons: object[] }>(`explain app ${service.appId}`);
    expect(reasons).toMatchObject([{ code: 'revoked', request_id: expect.stringMatching(/^[\w-]{36}$/) as string }]);
    expect(await cli.ok(`explain app ${service.appId}`)).toMatch(
      /refused now:\n {2}revoked since 20\S+ by request \S+ of admin\n/,
    );
  });

  it('explains another target, an unknown id and a rotated node', async () => {
    const [service, node] = [await app.service(undefined, 'auth'), await app.node()];
    expect(await cli.ok(`explain app ${service.appId} --target ocr`)).toMatch(
      /other_target\n {4}It is valid at auth only/,
    );
    expect(await cli.ok(`explain node ${randomUUID()}`)).toMatch(/refused now:\n {2}unknown\n[^]*never accepted/);
    expect((await cli.run('explain node nonsense')).code).toBe(2);
    expect(await cli.ok(`explain node ${node.nodeId}:pa_node_pasted`)).not.toContain('pa_node_pasted');
    const { api_key } = await cli.json<{ api_key: string }>(`nodes rotate ${node.nodeId}`);
    expect(await cli.ok(`explain node ${node.nodeId}`)).toMatch(/accepted now[^]*is valid too, until 20/);
    await app.validateNode(`${node.nodeId}:${api_key}`).set(service.headers).expect(200);
    expect(await cli.ok(`explain node ${node.nodeId}`)).toMatch(
      new RegExp(`would be refused:\\n {2}key_rotated[^]*overlap_ended[^]*Last accepted at \\S+ for ${service.caller}`),
    );
  });
});

describe('platform-auth operators', () => {
  it('issues an operator, whose key works as ADMIN_API_KEY within its scopes, and shows the key once', async () => {
    const words = ['operators', 'issue', 'Alice', '--scopes', 'read,users', '--expires', '2d'];
    const added = await cli.json<Record<string, string>>(...words);
    expect(added).toMatchObject({ name: 'alice', scopes: ['read', 'users'] });
    expect(Date.parse(added.expires_at!) - Date.now()).toBeGreaterThan(1.9 * 86_400_000);
    const asAlice = cli.with({ ADMIN_API_KEY: added.api_key! });
    expect(await asAlice.ok('nodes', 'list', '--household', randomUUID())).toBe('none\n');
    expect(await asAlice.ok('status')).toMatch(/nodes +\d+ live/);
    expect(await asAlice.fails('nodes', 'revoke', randomUUID(), '--yes')).toMatch(
      /missing_scope, 403\)\.\n {2}The key is valid\. Its operator needs the scope nodes\.\n/,
    );
    const shown = await cli.ok('operators list');
    expect(shown).toMatch(/alice[^]*read users/);
    expect(shown).not.toContain(added.api_key);
    expect(await cli.fails('operators issue ALICE --scopes read')).toMatch(/operator_exists, 409/);
  });

  it('prints the key for people with what it is for', async () => {
    expect(await cli.ok('operators issue bob --scopes nodes')).toMatch(
      /name +bob\napi_key +pa_admin_[\w-]{49}\nscopes +nodes\n\nThe key is shown only this once\./,
    );
  });

  it('rotates a key by name, and keeps the old one until the rotation is finished', async () => {
    const carol = await app.operator(['nodes'], 'carol');
    const { api_key } = await cli.json<{ api_key: string }>('operators rotate Carol');
    await carol.as().get('/nodes').expect(200);
    await app.asAdmin(api_key).get('/nodes').expect(200);
    await carol.as().get('/nodes').expect(200);
    await cli.ok('operators rotate carol --finish');
    await carol.as().get('/nodes').expect(401);
    await app.asAdmin(api_key).get('/nodes').expect(200);
    expect(await cli.ok(`operators rotate ${carol.id} --overlap-hours 0`)).toMatch(
      /pa_admin_[^]*shown only this once[^]*The old one is refused from now on\./,
    );
  });

  it('changes the scopes and the expiry of an operator, whose key stays', async () => {
    const grace = await app.operator(['nodes'], 'grace');
    expect(await cli.ok('operators update Grace --scopes read,users --expires 2d')).toMatch(/^scopes +read users$/m);
    await grace.as().get('/users').expect(200);
    await grace.as().post('/nodes', {}).expect(403);
    expect(await cli.json(`operators update ${grace.id} --expires never`)).toMatchObject({ expires_at: null });
    expect((await cli.run('operators update grace')).code).toBe(2);
  });

  it('revokes an operator by name or id, with a confirmation', async () => {
    const [dave, erin] = [await app.operator(['nodes'], 'dave'), await app.operator(['nodes'], 'erin')];
    expect(await cli.fails('operators revoke dave')).toBe(
      'This revokes the operator dave permanently. Add --yes to confirm. It was not done.\n',
    );
    await dave.as().get('/nodes').expect(200);
    expect(await cli.ok('operators revoke dave --yes')).toBe('Operator dave is revoked.\n');
    await dave.as().get('/nodes').expect(401);
    await cli.ok(`operators revoke ${erin.id} --yes`);
    await erin.as().get('/nodes').expect(401);
    expect(await cli.fails('operators revoke dave --yes')).toMatch(/No operator that is not revoked has the name dave/);
    const { items } = await cli.json<{ items: { name: string }[] }>('operators list --live');
    expect(items.map(({ name }) => name)).not.toContain('dave');
  });

  it('is told by the audit log and by explain who did what', async () => {
    const frank = await app.operator(['nodes'], 'frank');
    const node = await app.node();
    await frank.as().delete(`/nodes/${node.nodeId}`).expect(204);
    expect(await cli.ok('audit --actor operator:frank --event admin.node.revoked')).toMatch(
      /admin\.node\.revoked[^]*operator:frank/,
    );
    expect(await cli.ok('audit --event admin.operator.issued --limit 1')).toMatch(/admin[^]*operator:frank/);
    expect(await cli.ok(`explain node ${node.nodeId}`)).toMatch(/revoked since \S+ by request \S+ of operator:frank\n/);
  });

  it('counts in status only what the key may read, names the rest, and fails', async () => {
    const { key } = await app.operator(['nodes']);
    const { code, stdout, stderr } = await cli.with({ ADMIN_API_KEY: key }).run('status');
    expect(stdout).toMatch(/nodes +\d+ live[^]*\nnot looked at +background work, app credentials, configuration\n/);
    expect([code, stderr]).toEqual([1, expect.stringContaining('The key needs the scope read')]);
  });

  it.each(['', 'root', 'read,read', 'read nodes', 'READ'])('exits with 2 for the scopes %p', async (scopes) => {
    const { code, stderr } = await cli.run('operators', 'issue', 'grace', '--scopes', scopes);
    expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining('one or more of these') as string });
  });
});

const NOW = new Date('2026-11-22T00:00:00.000Z');

const DAY_MS = 86_400_000;

const inDays = (days: number): string => new Date(NOW.getTime() + days * DAY_MS).toISOString();

const credential = (more: Partial<AppCredentialResponse>): AppCredentialResponse => ({
  app_id: randomUUID(),
  caller: 'recipes',
  target: 'ocr',
  for_users: false,
  for_users_used_at: null,
  created_at: inDays(-100),
  updated_at: inDays(-100),
  last_used_at: inDays(-1),
  expires_at: null,
  life_days: null,
  revoked_at: null,
  rotated_at: null,
  current_key_used_at: null,
  previous_key_used_at: null,
  previous_key_used_for: null,
  previous_key_expires_at: null,
  scopes: null,
  scope_uses: [],
  ...more,
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

  it('draws a pair for users wider than the others, whatever its state is', () => {
    const drawn = toCalls(
      [
        credential({ for_users: true }),
        credential({ target: 'mcp' }),
        credential({ target: 'tts', for_users: true, last_used_at: null }),
      ],
      NOW,
    );
    expect(DRAWINGS.mermaid(drawn).match(/linkStyle.*/g)).toEqual([
      'linkStyle 1 stroke-width:5px',
      'linkStyle 2 stroke:#8a8a8a,stroke-width:5px',
    ]);
    expect(DRAWINGS.dot(drawn).match(/"recipes" -> .*penwidth=5.*/g)).toEqual([
      expect.stringMatching(/"ocr" \[label="for users, last used 2026-11-21"/),
      expect.stringMatching(/"tts" .*style=dashed/),
    ]);
    expect(DRAWINGS.svg(drawn).match(/stroke-width="\d" marker-end[^]*?<title>.*?:/g)).toEqual([
      expect.stringMatching(/^stroke-width="2".*\n?.*recipes → mcp:/),
      expect.stringMatching(/^stroke-width="5".*recipes → ocr:/),
      expect.stringMatching(/^stroke-width="5".*recipes → tts:/),
    ]);
    expect(DRAWINGS.text(drawn)).toMatch(/for_users[^]*mcp +│ ok +│ false +│[^]*ocr +│ ok +│ true +│/);
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
  it('status shows health, and counts credentials when it has the admin key', async () => {
    await app.node();
    const { live, ended } = (await app.admin.get('/nodes/summary').expect(200)).body as { live: number; ended: number };
    expect(await cli.ok('status')).toMatch(
      new RegExp(`status +ok\\ndatabase +up\\n[^]*\\nnodes +${live} live, ${ended} revoked or expired`),
    );
    const { port } = app.server.address() as AddressInfo;
    const besideService = cli.with({ AUTH_URL: '', INTERNAL_PORT: String(port), PORT: '1' });
    expect(await besideService.json('status')).toMatchObject({ url: `http://127.0.0.1:${port}` });
  });

  it('status --history says how many logins failed in each hour of two days, and today and yesterday', async () => {
    await app.login('nobody@example.org', 'wrong password').expect(401);
    type History = Readonly<Record<'today' | 'yesterday', { failed_logins: number }>> & { readonly hours: object[] };
    await eventually('the refusal is counted', async () => {
      const { today, yesterday, hours } = await cli.json<History>('status --history');
      expect(hours).toHaveLength(48);
      return today.failed_logins + yesterday.failed_logins > 0;
    });
    expect(await cli.ok('status --history')).toMatch(
      /│ hour +│ logins +│ failed logins [^]*│ today +│ \d+ \(\d+\) +│ \d+ \(\d+\) /,
    );
  });

  it('status with an empty admin key, as in a cron job without the variable, says what it did not look at, and fails', async () => {
    const { code, stdout, stderr } = await cli.with({ ADMIN_API_KEY: '' }).run('status --json');
    expect(JSON.parse(stdout)).toMatchObject({ health: { status: 'ok' }, nodes: null, background_work: null });
    expect(code).toBe(1);
    expect(stderr).toContain(
      'Not looked at: background work, nodes, app credentials, configuration. Set ADMIN_API_KEY',
    );
  });

  describe('leaked', () => {
    const digestOf = (key: string): string => computeDigest(key).toString('hex');

    it('names each key by file and line, whose it is and whether it is live, prints none, and ends with 1', async () => {
      const [live, revoked, service] = [await app.node(), await app.node(), await app.service()];
      await app.admin.delete(`/nodes/${revoked.nodeId}`).expect(204);
      await app.validateApp(service.headers).expect(200);
      const session = await (await app.user()).logsIn();
      const keys = [live.apiKey, revoked.apiKey, service.appKey, session.refresh_token, generateKey('pa_app_')];
      const file = cli.path('leak.txt');
      writeFileSync(file, `nothing\n${keys.map((key) => `KEY="${key}"`).join('\n')}`);
      const { code, stdout, stderr } = await cli.run(`leaked ${file} --json`);
      expect({ code, failure: JSON.parse(stderr) as object }).toMatchObject({
        code: 1,
        failure: { code: 'live_key_found' },
      });
      const { items } = JSON.parse(stdout) as { items: object[] };
      expect(items).toMatchObject([
        { place: `${file}:2`, kind: 'node', verdict: 'LIVE', owner: 'kitchen/speaker', id: live.nodeId },
        { place: `${file}:3`, kind: 'node', verdict: 'ended', id: revoked.nodeId },
        { place: `${file}:4`, kind: 'app', verdict: 'LIVE', owner: `${service.caller} → ${service.target}` },
        { place: `${file}:5`, kind: 'session', verdict: 'LIVE' },
        { place: `${file}:6`, kind: 'app', verdict: 'unknown', owner: '' },
      ]);
      const text = (await cli.run(`leaked ${file}`)).stdout;
      for (const key of keys) for (const shown of [stdout, stderr, text]) expect(shown).not.toContain(key.slice(0, 30));
    });

    it('reads a report of gitleaks: names the commit, each key once, and secrets of the service; ends with 1', async () => {
      const [{ apiKey }, secret] = [await app.node(), randomBytes(32).toString('base64')];
      const found = { File: '.env', StartLine: 5, Commit: 'a'.repeat(40), Secret: apiKey, Match: `API_KEY=${apiKey}` };
      const ofService = { RuleID: 'platform-auth-secret', File: 'auth.env', StartLine: 1, Secret: secret };
      const report = [
        ...['platform-auth-key', 'generic-api-key'].map((RuleID) => ({ ...found, RuleID })),
        ofService,
        { ...ofService, RuleID: 'generic-api-key', StartLine: 2 },
      ];
      writeFileSync(cli.path('report.json'), JSON.stringify(report));
      const { code, stdout } = await cli.run(`leaked --gitleaks ${cli.path('report.json')} --json`);
      expect({ code, items: (JSON.parse(stdout) as { items: object[] }).items }).toMatchObject({
        code: 1,
        items: [
          { place: `.env:5 (${'a'.repeat(12)})`, kind: 'node', verdict: 'LIVE' },
          { place: 'auth.env:1', kind: 'secret of the service', verdict: 'not looked up' },
        ],
      });
      writeFileSync(cli.path('report.json'), JSON.stringify([ofService]));
      const { code: ended, stderr, stdout: shown } = await cli.run(`leaked --gitleaks ${cli.path('report.json')}`);
      expect({ ended, stderr }).toEqual({ ended: 1, stderr: expect.stringContaining('1 secret was found') as string });
      for (const text of [stdout, stderr, shown]) expect(text).not.toContain(secret.slice(0, 20));
      writeFileSync(cli.path('report.json'), secret);
      expect(await cli.fails(`leaked --gitleaks ${cli.path('report.json')}`)).toMatch(/is not a report of gitleaks in/);
    });

    it('reads standard input, and says which file cannot be read', async () => {
      const { apiKey } = await app.node();
      const { stdout } = await cli.withInput(`first\n+KEY=${apiKey}\n`).run('leaked --json');
      expect(JSON.parse(stdout)).toMatchObject({ items: [{ place: 'stdin:2', verdict: 'LIVE' }] });
      for (const path of [cli.path('missing'), cli.folder]) expect(await cli.fails(`leaked ${path}`)).toContain(path);
    });

    it('revokes what is live after a question, and then finds nothing live', async () => {
      const [node, service] = [await app.node(), await app.service()];
      const file = cli.path('to-revoke.txt');
      writeFileSync(file, `${node.apiKey} ${service.appKey}`);
      expect((await cli.run(`leaked ${file} --revoke`)).stderr).toContain('Add --yes to confirm.');
      await app.validateNode(node.header).expect(200);
      expect((await cli.run(`leaked ${file} --revoke --yes`)).code).toBe(1);
      await app.validateNode(node.header).expect(401);
      await app.validateApp(service.headers).expect(401);
      expect(await cli.ok(`leaked ${file}`)).toMatch(/ended[^]*ended/);
    });

    it('knows the root key, to a caller who may know operators', async () => {
      const digests = [digestOf(ADMIN_KEY)];
      const { body } = await app.admin.post('/keys/identify', { digests }).expect(200);
      expect(body).toMatchObject({ items: [{ kind: 'root', id: null, owner: 'ADMIN_API_KEY', live: true }] });
      const operator = await app.operator(['apps']);
      expect((await operator.as().post('/keys/identify', { digests })).body).toMatchObject({ items: [] });
    });

    it('asks about both keys of a rotation', async () => {
      const service = await app.service();
      const { body } = await app.admin.post(`/app-credentials/${service.appId}/rotate`);
      const digests = [service.appKey, (body as { app_key: string }).app_key].map(digestOf);
      const identify = async () => (await app.admin.post('/keys/identify', { digests }).expect(200)).body as object;
      expect(await identify()).toMatchObject({ items: digests.map((digest) => ({ digest, live: true })) });
      await app.admin.post(`/app-credentials/${service.appId}/rotate`, { overlap_hours: 0 });
      expect(await identify()).toEqual({ items: [], searched: ['node', 'app', 'operator', 'session'] });
    });

    it('tells an operator only of the kinds of its scopes', async () => {
      const [node, service] = [await app.node(), await app.service()];
      const operator = await app.operator(['apps']);
      const file = cli.path('scoped.txt');
      writeFileSync(file, `${node.apiKey} ${service.appKey} ${operator.key}`);
      const { stdout } = await cli.with({ ADMIN_API_KEY: operator.key }).run(`leaked ${file} --json`);
      expect((JSON.parse(stdout) as { items: { verdict: string }[] }).items.map(({ verdict }) => verdict)).toEqual([
        'not looked up: scope',
        'LIVE',
        'not looked up: scope',
      ]);
    });

    it.each([[[]], [['x']], [['A'.repeat(64)]], [Array(33).fill('a'.repeat(64))], ['a'.repeat(64)]])(
      'answers 400 to %j',
      async (digests) => {
        expect((await app.admin.post('/keys/identify', { digests: digests as string[] })).status).toBe(400);
      },
    );
  });

  it('status names the households whose last active admin was disabled', async () => {
    const home = await Home.of(app);
    await home.member();
    expect(await cli.json('status')).toMatchObject({ households_without_admin: [] });
    await app.admin.patch(`/users/${home.admin.user.id}`, { is_active: false }).expect(200);
    expect(await cli.ok('status')).toMatch(new RegExp(`households without an active admin +home \\(${home.id}\\)`));
  });

  it('status names the operators whose keys expire within 14 days', async () => {
    const inDays = (days: number): string => new Date(Date.now() + days * 86_400_000).toISOString();
    await app.operator(['read'], 'late', inDays(15));
    const until = inDays(13);
    await app.operator(['read'], 'soon', until);
    const shown = await cli.ok('status');
    expect(shown).toMatch(new RegExp(`operators expiring within 14 days +\\d+: .*soon \\(${until.slice(0, 10)}\\)`));
    expect(shown).not.toContain('late (');
  });

  it('status names the scopes that were not asked for in 30 days', async () => {
    const { appId, caller } = await app.service(undefined, 'ocr');
    await app.admin.patch(`/app-credentials/${appId}`, { scopes: ['a:used', 'b:unused', 'c:unused'] }).expect(200);
    expect(await cli.json('status')).toMatchObject({ unused_scopes: [] });
    await app.database.query(
      `UPDATE app_credentials SET created_at = now() - interval '40 days', scopes_changed_at = now() - interval '31 days',
         scope_uses = jsonb_build_object('a:used', now(), 'b:unused', now() - interval '31 days') WHERE id = $1`,
      [appId],
    );
    expect(await cli.ok('status')).toContain(
      `not asked for in 30 days: ${caller} → ocr b:unused, ${caller} → ocr c:unused\n`,
    );
    await app.admin.patch(`/app-credentials/${appId}`, { for_users: true }).expect(200);
    expect(await cli.json('status')).toMatchObject({ unused_scopes: [{ scope: 'b:unused' }, { scope: 'c:unused' }] });
    await app.admin.patch(`/app-credentials/${appId}`, { scopes: ['b:unused'] }).expect(200);
    expect(await cli.json('status')).toMatchObject({ unused_scopes: [] });
  });

  it('status names a pair for users with which no token was issued for 30 days', async () => {
    const { appId, caller } = await app.service(undefined, 'ocr', ['documents:read']);
    await app.database.query(
      `UPDATE app_credentials SET for_users = true, created_at = now() - interval '31 days' WHERE id = $1`,
      [appId],
    );
    expect(await cli.ok('status')).toContain(`warning: ${caller} → ocr: It is for users, and got no token`);
    await app.admin.delete(`/app-credentials/${appId}`).expect(204);
    expect(await cli.ok('status')).not.toContain(caller);
  });

  it('map draws the credentials of the service, and a box for each set of targets of nodes', async () => {
    const { caller, target } = await app.service();
    for (const targets of [['ocr', 'speech'], ['speech', 'ocr'], ['recipes']])
      await app.admin.patch(`/nodes/${(await app.node()).nodeId}`, { targets }).expect(200);
    const drawn = await cli.ok('map --format dot');
    expect(drawn).toContain(`"${caller}" -> "${target}"`);
    expect(drawn.match(/"\d nodes? \(set \d\)" -> "\w+"/g)).toEqual([
      '"2 nodes (set 1)" -> "ocr"',
      '"2 nodes (set 1)" -> "speech"',
      '"1 node (set 2)" -> "recipes"',
    ]);
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
    expect(await cli.json(`nodes update ${nodeId} --expires never`)).toMatchObject({ expires_at: null });
    const { code, stderr } = await cli.run(`nodes update ${nodeId}`);
    expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining('nothing to change') });
  });

  it('rotates the key of a node, and revokes the node, which the filters of a list then leave out', async () => {
    const { nodeId, header: old } = await app.node();
    const { api_key } = await cli.json<{ api_key: string }>(`nodes rotate ${nodeId} --overlap-hours 0`);
    const header = `${nodeId}:${api_key}`;
    expectProblem(await app.validateNode(old), problems.invalidNodeCredentials);
    await app.validateNode(header).expect(200);
    expect(await cli.fails(`nodes revoke ${nodeId}`)).toMatch(
      /^This revokes the node [^/]+\/[^/]+ permanently\. Add --yes/,
    );
    expect(await cli.ok(`nodes revoke ${nodeId} --yes`)).toBe(`Node ${nodeId} is revoked.\n`);
    expectProblem(await app.validateNode(header), problems.invalidNodeCredentials);
    expect(await cli.ok('nodes list --all')).toContain(nodeId);
    expect(await cli.ok('nodes list --live --all')).not.toContain(nodeId);
  });
});
