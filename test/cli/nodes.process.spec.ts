import { randomUUID } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { eventually } from '../../tools/eventually.js';
import { Cli, urlOf, useCli } from '../support/cli.js';
import { HttpGate } from '../support/http-gate.js';
import { serve } from '../support/serve.js';
import { ADMIN_KEY } from '../support/settings.js';
import { useApp } from '../support/use-app.js';

interface NodeView {
  readonly node_id: string;
  readonly api_key: string;
  readonly room: string;
  readonly revoked_at: string | null;
}

describe('platform-auth nodes', () => {
  const app = useApp();
  const cli = useCli(app);

  /** @returns the id of a household that has one node, in another room */
  const makeHousehold = async (): Promise<string> => {
    const household = randomUUID();
    await app.admin.post('/nodes', { household_id: household, room: 'hall', name: 'door' }).expect(201);
    return household;
  };
  let home: string;
  const issuance = (household = home, room = `kitchen ${randomUUID()}`): string[] => [
    ...['issue', '--household', household, '--room', room, '--name', 'speaker'],
  ];
  const nodesOf = async (household: string): Promise<NodeView[]> =>
    (await cli.json<{ items: NodeView[] }>(`nodes list --household ${household} --all`)).items;
  const pairIn = (path: string) => JSON.parse(readFileSync(path, 'utf8')) as { node_id: string; api_key: string };
  const headerIn = (path: string): string => `${pairIn(path).node_id}:${pairIn(path).api_key}`;

  beforeAll(async () => {
    home = await makeHousehold();
  });

  it('issue prints the key once, and the node authenticates with it', async () => {
    const node = await cli.json<NodeView>('nodes', ...issuance());
    await app.validateNode(`${node.node_id}:${node.api_key}`).expect(200);
    expect(await cli.ok(`nodes show ${node.node_id}`)).not.toContain(node.api_key);
    const text = await cli.ok('nodes', ...issuance());
    await app.validateNode(/X-API-Key: (\S+)/.exec(text)![1]!).expect(200);
    const lines = await cli.ok('nodes', ...issuance(), '--format', 'env');
    expect(lines).toMatch(/^NODE_ID=[\w-]{36}\nAPI_KEY=pa_node_[\w-]{49}\n$/);
  });

  it.each(['issue', 'enrol --json'])(
    '%s says that a household is new, and how to undo a mistyped one',
    async (line) => {
      const household = randomUUID();
      const run = async () => cli.run('nodes', ...line.split(' '), ...issuance(household).slice(1));
      const remark = `Household ${household} is new. If its id is mistyped, delete it with its nodes: platform-auth households delete ${household} --revoke-nodes\n`;
      expect(await run()).toMatchObject({ code: 0, stderr: remark });
      expect(await run()).toMatchObject({ code: 0, stderr: '' });
      await cli.ok(`households delete ${household} --revoke-nodes --yes`);
      expect(await run()).toMatchObject({ code: 0, stderr: remark });
    },
  );

  describe('enrol', () => {
    const start = async () => {
      const command = cli.start('nodes', 'enrol', ...place());
      const readCode = () => /^ {2}([0-9A-Z]{5}-[0-9A-Z]{5})$/m.exec(command.shown())?.[1];
      await eventually('the code is printed', () => readCode() !== undefined);
      const enrolment_id = /cancel-enrolment (\S+)/.exec(command.shown())![1]!;
      return { ended: command.ended, code: readCode()!, enrolment_id };
    };

    const place = () => ['--household', home, '--room', 'attic', '--name', 'lamp'];

    it('prints a code, and waits until a device has exchanged it for its key', async () => {
      const { code, ended } = await start();
      const { body } = await app.post('/api/v0/nodes/enrol', { code }).expect(201);
      const { node_id, api_key } = body as NodeView;
      const { stdout, stderr, ...run } = await ended;
      expect(run).toEqual({ code: 0 });
      expect(stdout).toContain(`Node ${node_id} (attic, lamp) has enrolled.`);
      expect(stdout).toContain('▀');
      expect(stderr).toMatch(/^Waiting for the device: \d+:\d\d left\n$/);
      await app.validateNode(`${node_id}:${api_key}`).expect(200);
    });

    it('fails when the operator cancels the code meanwhile', async () => {
      const { code, enrolment_id, ended } = await start();
      const { items } = await cli.json<{ items: object[] }>('nodes enrolments --open');
      expect(items).toContainEqual(expect.objectContaining({ enrolment_id, room: 'attic' }));
      await cli.ok(`nodes cancel-enrolment ${enrolment_id}`);
      await app.post('/api/v0/nodes/enrol', { code }).expect(404);
      const { code: exitCode, stderr } = await ended;
      expect(exitCode).toBe(1);
      expect(stderr).toContain('No device has used the code: it is cancelled.');
    });

    it('prints JSON without waiting', async () => {
      const issued = await cli.json<Record<string, string>>('nodes', 'enrol', ...place(), '--expires-in', '2h');
      expect(Date.parse(issued.expires_at!) - Date.parse(issued.created_at!)).toBe(7_200_000);
      await app.post('/api/v0/nodes/enrol', { code: issued.code }).expect(201);
    });
  });

  it('issue writes the pair into an existing file, with which the node authenticates', async () => {
    const path = cli.path('existing.json');
    writeFileSync(path, '{\n    "volume": 7,\n    "node_id": ""\n}\n', { mode: 0o644 });
    const text = await cli.ok('nodes', ...issuance(), '--config', path);
    await app.validateNode(headerIn(path)).expect(200);
    expect(readFileSync(path, 'utf8')).toMatch(
      /^{\n {4}"volume": 7,\n {4}"node_id": "[\w-]+",\n {4}"api_key": "\S+"\n}\n$/,
    );
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(text).toContain(pairIn(path).node_id);
    expect(text).not.toContain(pairIn(path).api_key);
  });

  it.each(['node.env', 'node.yaml'])('issue creates %s, with which the node authenticates', async (name) => {
    await cli.ok('nodes', ...issuance(), '--config', cli.path(name));
    const [nodeId, apiKey] = readFileSync(cli.path(name), 'utf8').match(/(?<=[=:] ?"?)[\w-]{36,}/g)!;
    await app.validateNode(`${nodeId}:${apiKey}`).expect(200);
  });

  it('issue changes nothing when the file cannot be used, and says why', async () => {
    const household = randomUUID();
    writeFileSync(cli.path('broken.json'), '{"password": "hunter2"');
    expect(await cli.fails('nodes', ...issuance(household), '--config', cli.path('broken.json'))).toMatch(
      /^.*broken\.json cannot be used: it is not valid JSON\. Nothing was changed\.\n$/,
    );
    expect(await cli.fails('nodes', ...issuance(household), '--config', cli.folder, '--format', 'json')).toMatch(
      /it is a directory/,
    );
    expect(await nodesOf(household)).toEqual([]);
  });

  it('issue revokes the node again when writing the file fails, and leaves the file intact', async () => {
    const household = await makeHousehold();
    const path = cli.path('late.json');
    const before = '{"volume": 7}';
    writeFileSync(path, before);
    const gate = await HttpGate.before(urlOf(app));
    const reached = gate.stopAt({ request: 2, when: 'before' });
    const run = new Cli(gate.url).start('nodes', ...issuance(household), '--config', path);
    await reached;
    // The file becomes invalid between the check and the write.
    writeFileSync(path, '{"volume": 7');
    gate.resume();
    const { code, stderr } = await run.ended;
    gate.close();
    const node = (await nodesOf(household)).find(({ room }) => room !== 'hall');
    expect(code).toBe(1);
    expect(stderr).toMatch(/could not be written: it is not valid JSON\. It is unchanged\./);
    expect(stderr).toContain(`Node ${node!.node_id}, which was issued for it, is revoked again.`);
    expect(node!.revoked_at).not.toBeNull();
    expect(readFileSync(path, 'utf8')).toBe('{"volume": 7');
    expect(readdirSync(cli.folder).filter((name) => name.startsWith('.late'))).toEqual([]);
  });

  it('issue does not overwrite the key of a live node or of another kind without --replace', async () => {
    const path = cli.path('taken.json');
    await cli.ok('nodes', ...issuance(), '--config', path);
    const taken = readFileSync(path, 'utf8');
    expect(await cli.fails('nodes', ...issuance(), '--config', path)).toMatch(/is not revoked.*--replace/);
    expect(readFileSync(path, 'utf8')).toBe(taken);
    await cli.ok('nodes', ...issuance(), '--config', path, '--replace');
    await cli.ok('nodes', 'revoke', pairIn(path).node_id, '--yes');
    await cli.ok('nodes', ...issuance(), '--config', path);
    await app.validateNode(headerIn(path)).expect(200);
    writeFileSync(cli.path('weather.env'), 'API_KEY=of-the-weather-service\n');
    expect(await cli.fails('nodes', ...issuance(), '--config', cli.path('weather.env'))).toMatch(/something else/);
  });

  it('reports what is wrong and what to do about it', async () => {
    const as = (variables: Record<string, string>, url = urlOf(app)) => new Cli(url, variables);
    const admin = { ADMIN_API_KEY: ADMIN_KEY };
    const cases: [Cli, string[], RegExp][] = [
      [as({}), ['nodes', 'list'], /^ADMIN_API_KEY is not set/],
      [as({ ADMIN_API_KEY: 'x\ny' }), ['nodes', 'list'], /^ADMIN_API_KEY holds/],
      [
        as({ ADMIN_API_KEY: 'x'.repeat(40) }),
        ['nodes', 'list'],
        /invalid_admin_key, 401[^]*is neither the key that the service/,
      ],
      [
        as(admin, 'http://127.0.0.1:1'),
        ['nodes', 'list'],
        /^http:.* was not called: fetch never connects to this port/,
      ],
      [as(admin, 'ftp://x'), ['nodes', 'list'], /^--url or AUTH_URL must be/],
      [cli, ['nodes', 'show', 'x'], /not_found, 404[^]*nodes list` shows[^]*request id/],
      [
        cli,
        ['nodes', 'issue', '--household', randomUUID(), '--room', 'a\nb', '--name', 'x'],
        /\n {2}room must be one line/,
      ],
    ];
    for (const [each, parameters, expected] of cases) expect(await each.fails(...parameters)).toMatch(expected);
  });

  it('says whether a refused ADMIN_API_KEY was that of the environment or of .env', async () => {
    const [wrong, other] = ['x'.repeat(40), 'y'.repeat(40)];
    const ofFile = new Cli(urlOf(app), {});
    expect(await ofFile.with({ ADMIN_API_KEY: wrong }).fails('nodes list')).toContain(
      'The ADMIN_API_KEY of the environment is neither',
    );
    writeFileSync(ofFile.path('.env'), `ADMIN_API_KEY=${other}\n`);
    expect(await ofFile.fails('nodes list')).toContain('The ADMIN_API_KEY of .env is neither');
    const said = await ofFile.with({ ADMIN_API_KEY: wrong }).fails('nodes list');
    expect(said).toContain('The ADMIN_API_KEY of the environment, which overrides that of .env, is neither');
    expect(said).not.toMatch(/xxx|yyy/);
  });

  it.each([
    [['nodes', 'issue', '--room', 'x', '--name', 'y']],
    [['nodes', 'issue', '--household', 'x', '--room', 'x', '--name', 'y']],
    [['nodes', 'rotate']],
    [['nodes', 'rotate', 'x', '--overlap-hours', '-1']],
    [['nodes', 'rotate', 'x', '--config', 'a.json', '--overlap-hours', '1']],
    [['nodes', 'list', '--url', 'nonsense']],
    [['nodes', 'list', '--colour']],
    [['nodes', 'nonsense']],
    [['nodes']],
  ])('exits with 2 on wrong usage: %j', async (parameters) => {
    const { code, stdout, stderr } = await cli.run(...parameters);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).not.toBe('');
    expect(existsSync(cli.path('a.json'))).toBe(false);
  });

  it('does not follow a redirect with a key, and recognises another service', async () => {
    const keys: unknown[] = [];
    const other = await serve((request, response) => {
      keys.push(request.url);
      if (request.url!.startsWith('/elsewhere')) response.end('{}');
      else response.writeHead(keys.length > 1 ? 200 : 307, { location: '/elsewhere' }).end('<html>');
    });
    const lost = new Cli(other.url);
    expect(await lost.fails('nodes show x')).toMatch(/redirects/);
    expect(keys).toHaveLength(1);
    expect(await lost.fails('nodes list')).not.toMatch(/TypeError|undefined/);
    other.close();
  });
});
