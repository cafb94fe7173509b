import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { problems } from '../../src/foundation/problems/problems.js';
import { IS_NIGHTLY } from '../../tools/nightly.js';
import { Cli, urlOf, useCli } from '../support/cli.js';
import { expectProblem } from '../support/expect-problem.js';
import { HttpGate, type Cut } from '../support/http-gate.js';
import type { Device } from '../support/test-app.js';
import { useApp } from '../support/use-app.js';

/** The requests of a rotation in order: the power can fail between any two. */
const REQUESTS = [
  'GET /api/v0/admin/nodes/…',
  'POST /internal/validate-node',
  'POST /api/v0/admin/nodes/…/rotate',
  'POST /internal/validate-node',
];
/** The cuts at which the service or the file has changed since the cut before. */
const CUTS: Cut[] = [
  { request: 2, when: 'after' },
  { request: 3, when: 'after' },
  { request: 4, when: 'before' },
  { request: 4, when: 'after' },
];
const nameOf = ({ request, when }: Cut): string => `${when} request ${request}`;
/** At night every cut follows every cut, and otherwise each one follows another. */
const cutsAfter = (first: Cut): Cut[] =>
  IS_NIGHTLY ? CUTS : [CUTS[(CUTS.indexOf(first) + CUTS.length - 1) % CUTS.length]!];

describe('platform-auth nodes rotate --config', () => {
  const app = useApp();
  let gate: HttpGate;
  let cli: Cli;
  let made = 0;

  beforeAll(async () => {
    gate = await HttpGate.before(urlOf(app));
    cli = new Cli(gate.url);
  });

  afterAll(() => gate.close());

  /** A node whose file holds its credential and another setting. */
  const nodeWithFile = async (): Promise<{ node: Device; path: string }> => {
    const node = await app.node();
    const path = cli.path(`node-${(made += 1)}.json`);
    writeFileSync(path, JSON.stringify({ volume: 7, node_id: node.nodeId, api_key: node.apiKey }));
    return { node, path };
  };
  const headerIn = (path: string): string => {
    const { volume, node_id, api_key } = JSON.parse(readFileSync(path, 'utf8')) as Record<string, string>;
    expect(volume).toBe(7);
    return `${node_id}:${api_key}`;
  };
  const killedAt = async (cut: Cut, { nodeId }: Device, path: string): Promise<void> => {
    const reached = gate.stopAt(cut);
    const run = cli.start(`nodes rotate ${nodeId} --config ${path}`);
    await Promise.race([reached, run.ended]);
    run.kill();
    expect((await run.ended).code).toBeNull();
    void gate.stopAt(undefined);
  };
  const rotates = async ({ nodeId }: Device, path: string, ...more: string[]): Promise<string> => {
    void gate.stopAt(undefined);
    return cli.ok('nodes', 'rotate', nodeId, '--config', path, ...more);
  };

  it('writes a new key into the file and uses it, which ends the old one', async () => {
    const { node, path } = await nodeWithFile();
    const text = await rotates(node, path);
    expect(gate.seen.map((call) => call.replace(node.nodeId, '…'))).toEqual(REQUESTS);
    expect(headerIn(path)).not.toBe(node.header);
    expect(text).not.toContain(headerIn(path).split(':')[1]);
    expectProblem(await app.validateNode(node.header), problems.invalidNodeCredentials);
    await app.validateNode(headerIn(path)).expect(200);
  });

  it('leaves the first use to the node with --no-confirm, and the running node keeps its old key until then', async () => {
    const { node, path } = await nodeWithFile();
    expect(await rotates(node, path, '--no-confirm')).toMatch(/valid until the node first uses/);
    await app.validateNode(node.header).expect(200);
    await app.validateNode(headerIn(path)).expect(200);
    expectProblem(await app.validateNode(node.header), problems.invalidNodeCredentials);
  });

  it('validates the keys of a node with targets at one of them', async () => {
    const { node, path } = await nodeWithFile();
    await app.admin.patch(`/nodes/${node.nodeId}`, { targets: ['ocr', 'recipes'] }).expect(200);
    await rotates(node, path);
    const at = (header: string) => app.validateNode(header).set('X-Platform-Target', 'recipes');
    expectProblem(await at(node.header), problems.invalidNodeCredentials);
    await at(headerIn(path)).expect(200);
  });

  describe.each(CUTS.map((cut): [string, Cut] => [nameOf(cut), cut]))('killed %s', (_name, cut) => {
    it('leaves a valid key in the file, and a rerun completes', async () => {
      const { node, path } = await nodeWithFile();
      await killedAt(cut, node, path);
      await app.validateNode(headerIn(path)).expect(200);
      const found = headerIn(path);
      await rotates(node, path);
      expect(headerIn(path)).not.toBe(found);
      await app.validateNode(headerIn(path)).expect(200);
      for (const old of [node.header, found])
        expectProblem(await app.validateNode(old), problems.invalidNodeCredentials);
    });

    it('and killed again at any step leaves a valid key in the file, also when the node made no call in between', async () => {
      for (const second of cutsAfter(cut)) {
        const { node, path } = await nodeWithFile();
        await killedAt(cut, node, path);
        await killedAt(second, node, path);
        expect({ second, status: (await app.validateNode(headerIn(path))).status }).toEqual({ second, status: 200 });
      }
    });
  });

  it('keeps the old key valid for long when the new one was lost', async () => {
    const { node, path } = await nodeWithFile();
    await killedAt({ request: 3, when: 'after' }, node, path);
    app.clock.advance({ days: 364 });
    await app.validateNode(headerIn(path)).expect(200);
    app.clock.advance({ days: 2 });
    expectProblem(await app.validateNode(headerIn(path)), problems.invalidNodeCredentials);
    const again = await cli.run(`nodes rotate ${node.nodeId} --config ${path}`);
    expect(again).toMatchObject({ code: 0, stderr: expect.stringMatching(/is not valid/) as string });
    await app.validateNode(headerIn(path)).expect(200);
  });

  it('recognises a rotation that another program began', async () => {
    const { node, path } = await nodeWithFile();
    await app.admin.post(`/nodes/${node.nodeId}/rotate`).expect(200);
    await rotates(node, path);
    await app.validateNode(headerIn(path)).expect(200);
  });

  it('does not rotate when the file is of another node or cannot be used', async () => {
    const { node, path } = await nodeWithFile();
    const other = await app.node();
    expect(await cli.fails(`nodes rotate ${other.nodeId} --config ${path}`)).toMatch(/the pair of another node/);
    writeFileSync(cli.path('list.json'), '[]');
    expect(await cli.fails(`nodes rotate ${node.nodeId} --config ${cli.path('list.json')}`)).toMatch(
      /is not a JSON object/,
    );
    for (const { nodeId } of [node, other])
      expect((await app.admin.get(`/nodes/${nodeId}`)).body).toMatchObject({ rotated_at: null });
  });

  it('reports that the old key is still valid when writing the new one fails', async () => {
    const { node, path } = await nodeWithFile();
    const before = readFileSync(path, 'utf8');
    const reached = gate.stopAt({ request: 2, when: 'after' });
    const run = cli.start(`nodes rotate ${node.nodeId} --config ${path}`);
    await reached;
    writeFileSync(path, `${before}}`);
    gate.resume();
    const { code, stderr } = await run.ended;
    expect(code).toBe(1);
    expect(stderr).toMatch(/could not be written[^]*the old one stays valid until 20/);
    await app.validateNode(node.header).expect(200);
    expect(readFileSync(path, 'utf8')).toBe(`${before}}`);
  });

  it('refuses a revoked node and does not change its file', async () => {
    const { node, path } = await nodeWithFile();
    await app.admin.delete(`/nodes/${node.nodeId}`).expect(204);
    const before = readFileSync(path, 'utf8');
    const { code, stderr } = await cli.run(`nodes rotate ${node.nodeId} --config ${path}`);
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringMatching(/credential_revoked, 409/) as string });
    expect(readFileSync(path, 'utf8')).toBe(before);
  });

  it('leaves no temporary files', () => {
    expect(readdirSync(cli.folder).filter((name) => name.endsWith('.new'))).toEqual([]);
  });
});

describe('platform-auth nodes rotate --config with VALIDATE_NODE_REQUIRES_APP', () => {
  const app = useApp({ variables: { VALIDATE_NODE_REQUIRES_APP: 'true' } });
  const cli = useCli(app);

  it('leaves the first use to the node, and does not rotate again before it, without an app credential', async () => {
    const [node, service] = [await app.node(), await app.service(undefined, 'auth')];
    const path = cli.path('node.env');
    writeFileSync(path, `NODE_ID=${node.nodeId}\nAPI_KEY=${node.apiKey}\n`);
    const first = await cli.run(`nodes rotate ${node.nodeId} --config ${path}`);
    expect(first).toMatchObject({ code: 0, stderr: expect.stringMatching(/^Not confirmed/) as string });
    const written = readFileSync(path, 'utf8');
    expect(await cli.fails(`nodes rotate ${node.nodeId} --config ${path}`)).toMatch(/An earlier rotation is open/);
    expect(readFileSync(path, 'utf8')).toBe(written);
    const [, key] = /API_KEY=(.*)/.exec(written)!;
    await app.validateNode(`${node.nodeId}:${key}`).set(service.headers).expect(200);
    expect((await cli.run(`nodes rotate ${node.nodeId} --config ${path}`)).code).toBe(0);
    const withApp = cli.with({ PLATFORM_APP_ID: service.appId, PLATFORM_APP_KEY: service.appKey });
    expect(await withApp.ok('nodes', 'rotate', node.nodeId, '--config', path)).toMatch(/refused from now on/);
  });
});
