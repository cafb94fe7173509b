import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { parse as parseVariables } from 'dotenv';
import { parseAllDocuments } from 'yaml';
import { readPlatformMap } from '../../src/cli/platform/platform-map.js';
import { AdminClient } from '../../src/cli/remote/admin-client.js';
import { apply } from '../../src/cli/platform/apply.js';
import { generateKey } from '../../src/foundation/crypto/secret.js';
import { createId } from '../../src/foundation/common/ids.js';
import { eventually } from '../../tools/eventually.js';
import { urlOf, useCli } from '../support/cli.js';
import { HttpGate } from '../support/http-gate.js';
import { ADMIN_KEY } from '../support/settings.js';
import { useApp } from '../support/use-app.js';

const MAP = {
  services: {
    auth: { url: 'http://127.0.0.1:7701' },
    ocr: { url: 'http://127.0.0.1:7705', calls: ['auth'] },
    recipes: { url: 'http://127.0.0.1:7706', calls: { auth: null, ocr: ['documents:read'] } },
  },
};
type RawMap = Readonly<{
  services: Record<
    string,
    { url: string; calls?: unknown; namespace?: string; events?: readonly string[] | undefined }
  >;
}>;
interface Document {
  readonly service: string;
  readonly variables: Record<string, string>;
}
interface Secret {
  readonly metadata: { name: string; namespace?: string; labels: Record<string, string> };
  readonly data: Record<string, string>;
}

describe('platform-auth apply', () => {
  const app = useApp();
  let cli = useCli(app);

  beforeAll(async () => {
    const issued = await cli.json<{ api_key: string }>('operators issue pipeline --scopes apps');
    cli = cli.with({ ADMIN_API_KEY: issued.api_key });
  });
  beforeEach(async () => {
    await app.database.query('UPDATE app_credentials SET revoked_at = now() WHERE revoked_at IS NULL');
    writeMap(MAP);
  });

  const writeMap = (map: RawMap) => writeFileSync(cli.path('platform.json'), JSON.stringify(map));
  const withCalls = (service: 'ocr' | 'recipes', calls: unknown, more: RawMap['services'] = {}): RawMap => ({
    services: { ...MAP.services, ...more, [service]: { ...MAP.services[service], calls } },
  });
  const words = (...more: string[]) => ['apply', '--map', 'platform.json', ...more];
  const run = async (...more: string[]) => cli.run(...words(...more));
  const readSecrets = (text: string) =>
    new Map(
      parseAllDocuments(text).map((document) => {
        const secret = (document as { toJS(): unknown }).toJS() as Secret;
        return [secret.metadata.name, secret];
      }),
    );
  const decode = (secret: Secret | undefined, name: string) =>
    Buffer.from(secret?.data[name] ?? '', 'base64').toString();
  const accepts = async (id: string | undefined, key: string | undefined, target: string, status = 200) =>
    app.validateApp({ 'X-Platform-App-Id': id!, 'X-Platform-App-Key': key! }, { target }).expect(status);
  const livePairs = async () =>
    (
      await app.database.query<{ pair: string }>(
        `SELECT caller || ' → ' || target AS pair FROM app_credentials WHERE revoked_at IS NULL ORDER BY 1`,
      )
    ).map(({ pair }) => pair);
  const ALL = ['ocr → auth', 'recipes → auth', 'recipes → ocr'];

  it('plans with exit code 3, writes environment files that work, and then has nothing to do', async () => {
    const folder = cli.path('env');
    const planned = await run('--output', folder, '--plan', '--json');
    expect(planned.code).toBe(3);
    expect(JSON.parse(planned.stdout)).toMatchObject({ dry_run: true, summary: { issued: 3, left_alone: 0 } });
    expect(existsSync(folder)).toBe(false);
    expect(await cli.fails(...words('--output', folder))).toContain('Add --yes to confirm');
    expect(await livePairs()).toEqual([]);
    await cli.ok(...words('--output', folder, '--yes'));
    expect(readdirSync(folder).sort()).toEqual(['ocr.env', 'recipes.env']);
    expect(statSync(`${folder}/recipes.env`).mode & 0o777).toBe(0o600);
    const recipes = parseVariables(readFileSync(`${folder}/recipes.env`));
    expect(recipes).toMatchObject({ AUTH_URL: 'http://127.0.0.1:7701', SERVICE_NAME: 'recipes' });
    await accepts(recipes.AUTH_APP_ID, recipes.AUTH_APP_KEY, 'auth');
    await accepts(recipes.OCR_APP_ID, recipes.OCR_APP_KEY, 'ocr');
    expect(await cli.ok(...words('--output', folder, '--plan'))).toContain('Left alone: 3.');
    expect(await cli.ok(...words('--output', folder))).toContain('Nothing was changed.');
  });

  it('streams one Kubernetes Secret for each service, and then leaves keys alone that it cannot read', async () => {
    const { code, stdout, stderr } = await run('--to', 'kubernetes', '--yes');
    expect(code).toBe(0);
    const secrets = readSecrets(stdout);
    expect([...secrets.keys()]).toEqual(['ocr-env', 'recipes-env']);
    const recipes = secrets.get('recipes-env');
    expect(recipes?.metadata.labels).toMatchObject({ 'app.kubernetes.io/part-of': 'platform' });
    expect(Object.keys(recipes?.data ?? {})).toEqual([
      ...['AUTH_APP_ID', 'AUTH_APP_KEY', 'AUTH_URL', 'OCR_APP_ID', 'OCR_APP_KEY', 'OCR_URL', 'SERVICE_NAME'],
    ]);
    const key = decode(recipes, 'OCR_APP_KEY');
    await accepts(decode(recipes, 'OCR_APP_ID'), key, 'ocr');
    expect(stderr).not.toContain(key);
    const again = await run('--to', 'kubernetes', '--yes');
    expect(again).toMatchObject({ code: 1, stdout: '' });
    expect(again.stderr).toContain('cannot be read again: ocr → auth, recipes → auth, recipes → ocr');
    expect(again.stderr).toContain('name them with --current');
    expect(again.stderr).not.toContain('match the map');
    writeFileSync(cli.path('others.yaml'), 'kind: Secret\nmetadata: { name: ocr-env }\ndata: {}\n');
    const others = await run('--to', 'kubernetes', '--yes', '--current', 'others.yaml');
    expect(others).toMatchObject({ code: 1, stdout: '' });
    expect(others.stderr).toContain('The documents of --current hold none of the keys.');
  });

  it('prints the Secrets in use again when nothing has changed, so that kubectl has what to apply', async () => {
    const { stdout } = await run('--to', 'kubernetes', '--yes');
    writeFileSync(cli.path('in-use.yaml'), stdout);
    expect(await run('--to', 'kubernetes', '--current', 'in-use.yaml')).toMatchObject({ code: 0, stdout });
    expect(await run('--to', 'kubernetes', '--current', 'in-use.yaml', '--plan')).toMatchObject({ code: 0 });
  });

  it('leaves what it did not write in a Secret as it is, also what is not text', async () => {
    const { stdout } = await run('--to', 'kubernetes', '--yes');
    const keystore = Buffer.from([0xfe, 0xed, 0xfe, 0xed, 0, 0x80]).toString('base64');
    const added = `data:\n  keystore.jks: ${keystore}\n  motd: ${Buffer.from('Grüezi\n').toString('base64')}\n`;
    writeFileSync(cli.path('in-use.yaml'), stdout.replaceAll('data:\n', added));
    writeMap(withCalls('recipes', { auth: null, ocr: ['documents:read'], tts: null }, { tts: { url: 'http://tts' } }));
    const printed = readSecrets((await run('--to', 'kubernetes', '--current', 'in-use.yaml', '--yes')).stdout);
    for (const secret of printed.values()) {
      expect(secret.data['keystore.jks']).toBe(keystore);
      expect(decode(secret, 'motd')).toBe('Grüezi\n');
    }
    expect(decode(printed.get('recipes-env'), 'TTS_APP_KEY')).toMatch(/^pa_app_/);
  });

  it('quotes labels, annotations and namespaces that YAML 1.1, which kubectl reads, takes for something else', async () => {
    const { stdout } = await run('--to', 'kubernetes', '--yes');
    const texts = { backup: 'yes', restore: 'off', answer: 'y', size: '1_000', since: '2026-11-29', n: 'x' };
    const kept = `metadata:\n  annotations: ${JSON.stringify(texts)}\n`;
    const inUse = stdout.replaceAll('metadata:\n', kept).replaceAll('labels:\n', 'labels:\n    backup: "yes"\n');
    writeFileSync(cli.path('in-use.yaml'), inUse);
    writeMap({ services: { ...MAP.services, ocr: { ...MAP.services.ocr, namespace: 'on' } } });
    const printed = (await run('--to', 'kubernetes', '--current', 'in-use.yaml')).stdout;
    const [read] = [parseAllDocuments(printed, { version: '1.1' })].flat().map((document): unknown => document.toJS());
    expect(read).toMatchObject({ metadata: { namespace: 'on', labels: { backup: 'yes' }, annotations: texts } });
  });

  it('writes a new key over one that is not text', async () => {
    const { stdout } = await run('--to', 'kubernetes', '--yes');
    const damaged = `  OCR_APP_KEY: ${Buffer.from([0xff]).toString('base64')}`;
    writeFileSync(cli.path('in-use.yaml'), stdout.replace(/^ {2}OCR_APP_KEY: .*$/m, damaged));
    const rotated = await run('--to', 'kubernetes', '--current', 'in-use.yaml', '--rotate-lost', '--yes');
    expect(decode(readSecrets(rotated.stdout).get('recipes-env'), 'OCR_APP_KEY')).toMatch(/^pa_app_/);
  });

  it('removes the keys of a pruned pair from its Secret', async () => {
    writeFileSync(cli.path('in-use.yaml'), (await run('--to', 'kubernetes', '--yes')).stdout);
    writeMap(withCalls('recipes', ['auth']));
    const pruned = await run('--to', 'kubernetes', '--current', 'in-use.yaml', '--yes', '--prune', '1');
    expect(pruned.code).toBe(0);
    const names = Object.keys(readSecrets(pruned.stdout).get('recipes-env')?.data ?? {});
    expect(names.filter((name) => /^OCR_APP_/.test(name))).toEqual([]);
    expect(names).toContain('AUTH_APP_KEY');
  });

  it('puts each Secret into the namespace of its service, and keeps those of one name apart', async () => {
    const services = { ...MAP.services, ocr: { ...MAP.services.ocr, namespace: 'documents' } };
    writeMap({ services });
    const { stdout } = await run('--to', 'kubernetes', '--yes');
    expect(readSecrets(stdout).get('ocr-env')?.metadata).toMatchObject({ namespace: 'documents' });
    expect(readSecrets(stdout).get('recipes-env')?.metadata).not.toHaveProperty('namespace');
    const foreign = 'kind: Secret\nmetadata: { name: ocr-env, namespace: other }\ndata: { AUTH_APP_KEY: eA== }\n';
    writeFileSync(cli.path('in-use.yaml'), `${foreign}${stdout}`);
    expect(await run('--to', 'kubernetes', '--current', 'in-use.yaml')).toMatchObject({ code: 0, stdout });
    writeMap(MAP);
    const ambiguous = await run('--to', 'kubernetes', '--current', 'in-use.yaml');
    expect(ambiguous).toMatchObject({ code: 1, stdout: '' });
    expect(ambiguous.stderr).toContain('two documents ocr-env: other, documents. Give the service its namespace');
  });

  it.each([['--yes'], ['--plan']])(
    'fails with %s where --output holds none of the keys, and says what to run',
    async (how) => {
      await cli.ok(...words('--output', cli.path('right'), '--yes'));
      const { code, stderr, stdout } = await run('--output', cli.path('mistyped'), how);
      expect({ code, exists: existsSync(cli.path('mistyped')) }).toEqual({ code: 1, exists: false });
      expect(stderr).toMatch(/mistyped holds none of the keys\. Is --output right\?.*--rotate-lost/);
      expect(stdout).not.toContain('match the map');
    },
  );

  it('completes the Secrets in use, which --current names, and refuses to replace them without', async () => {
    writeMap(withCalls('recipes', ['auth']));
    const { stdout } = await run('--to', 'kubernetes', '--yes');
    writeFileSync(cli.path('in-use.yaml'), `${stdout}---\napiVersion: v1\nkind: Secret\nmetadata: { name: other }\n`);
    writeMap(MAP);
    const refused = await run('--to', 'kubernetes', '--yes', '--json');
    expect(refused).toMatchObject({ code: 1, stdout: '' });
    expect(refused.stderr).toMatch(/"key_unreadable".*recipes gets a new key.*--rotate-lost recipes/);
    const completed = readSecrets((await run('--to', 'kubernetes', '--current', 'in-use.yaml', '--yes')).stdout);
    expect([...completed.keys()]).toEqual(['ocr-env', 'recipes-env']);
    const [before, after] = [readSecrets(stdout).get('recipes-env'), completed.get('recipes-env')];
    expect(after?.data).toMatchObject(before?.data ?? {});
    await accepts(decode(after, 'OCR_APP_ID'), decode(after, 'OCR_APP_KEY'), 'ocr');
  });

  it('makes new keys for lost ones only with --rotate-lost, and the former ones work meanwhile', async () => {
    const folder = cli.path('lost');
    await cli.ok(...words('--to', 'json', '--output', folder, '--yes'));
    const read = () => (JSON.parse(readFileSync(`${folder}/ocr.json`, 'utf8')) as Document).variables;
    const { AUTH_APP_ID, AUTH_APP_KEY } = read();
    writeFileSync(`${folder}/ocr.json`, '{"service":"ocr","variables":{"LOG_LEVEL":"debug"}}\n');
    const options = ['--to', 'json', '--output', folder, '--yes'];
    expect(await cli.json(...words(...options))).toMatchObject({ summary: { rotated: 0, left_alone: 3 } });
    expect(await cli.fails(...words(...options, '--rotate-lost', 'tts'))).toMatch(/no service tts/);
    expect(await cli.json(...words(...options, '--rotate-lost'))).toMatchObject({ summary: { rotated: 1 } });
    expect(read()).toMatchObject({ AUTH_APP_ID, LOG_LEVEL: 'debug' });
    await accepts(AUTH_APP_ID, AUTH_APP_KEY, 'auth');
    await accepts(AUTH_APP_ID, read().AUTH_APP_KEY, 'auth');
  });

  it('rotates the keys of a service on purpose, once, and writes them', async () => {
    const folder = cli.path('env');
    const options = ['--output', folder, '--yes'];
    await cli.ok(...words(...options));
    const read = () => parseVariables(readFileSync(`${folder}/ocr.env`));
    const before = read();
    expect(await cli.json(...words(...options, '--rotate', 'ocr'))).toMatchObject({ summary: { rotated: 1 } });
    await accepts(before.AUTH_APP_ID, before.AUTH_APP_KEY, 'auth');
    await accepts(before.AUTH_APP_ID, read().AUTH_APP_KEY, 'auth');
    expect(read().AUTH_APP_KEY).not.toBe(before.AUTH_APP_KEY);
    expect(await cli.ok(...words(...options))).toContain('Nothing was changed.');
    expect(await cli.fails(...words(...options, '--rotate', 'ocr'))).toContain('The rotation is not finished');
    expect(await cli.fails(...words(...options, '--rotate', 'tts'))).toMatch(/no service tts/);
  });

  it('does not rotate again, also with --rotate-lost, what was rotated by hand and whose old key it finds', async () => {
    const folder = cli.path('env');
    const options = ['--output', folder, '--yes'];
    await cli.ok(...words(...options));
    const { AUTH_APP_ID } = parseVariables(readFileSync(`${folder}/ocr.env`));
    await cli.ok(`apps rotate ${AUTH_APP_ID}`);
    const said = await cli.ok(...words(...options, '--rotate-lost'));
    expect(said).toContain('Keys that were rotated, and whose old key was found here: ocr → auth.');
    expect(said).toContain('Rotated: 0.');
    expect(await cli.json(...words(...options, '--rotate', 'ocr'))).toMatchObject({ summary: { rotated: 1 } });
    const { AUTH_APP_KEY } = parseVariables(readFileSync(`${folder}/ocr.env`));
    await accepts(AUTH_APP_ID, AUTH_APP_KEY, 'auth');
  });

  it('revokes the keys of a stream whose reader has ended', async () => {
    const ended = await cli.runIntoClosedPipe(...words('--to', 'json', '--yes'));
    expect(ended).toMatchObject({ code: 1, stderr: expect.stringContaining('revoked again: ocr → auth.') as unknown });
    expect(ended.stderr).toMatch(/^ocr is not complete: the reader of standard output has ended\.\n/m);
    expect(await livePairs()).toEqual([]);
  });

  /** In this process, at the same time as other runs. @param folder undefined: standard output */
  const applyHere = (folder?: string, rotateLost?: string) =>
    apply(AdminClient.from(urlOf(app), { ADMIN_API_KEY: ADMIN_KEY }), {
      ...{ prune: undefined, rotate: undefined, rotateLost, isPlan: false, yes: true, keyToCheck: undefined },
      map: readPlatformMap(cli.path('platform.json')),
      documents: { format: 'json', folder, current: undefined },
      confirm: () => Promise.resolve(),
    });

  it.each([
    [
      'rotated',
      'all',
      0,
      /^ocr is not complete[^]*The new keys of ocr → auth are lost; the old ones work for 24 hours\./,
      ALL,
    ],
    ['issued', undefined, 1, /^recipes is not complete[^]*before it may be lost too: ocr → auth\./, ['ocr → auth']],
  ])('names the keys that it %s when the reader ends meanwhile', async (_did, rotateLost, written, message, live) => {
    if (rotateLost !== undefined) await applyHere(cli.path('kept'));
    const write = jest.spyOn(process.stdout, 'write').mockImplementation((_text, done: unknown) => {
      const isEnded = write.mock.calls.length > written;
      const error = isEnded ? Object.assign(new Error('write EPIPE'), { code: 'EPIPE' }) : null;
      (done as (error: Error | null) => void)(error);
      return true;
    });
    const outcome = applyHere(undefined, rotateLost).finally(() => write.mockRestore());
    const code = 'output_unusable';
    await expect(outcome).rejects.toMatchObject({ code, message: expect.stringMatching(message) as unknown });
    expect(await livePairs()).toEqual(live);
  });

  it('changes scopes with the same key, and revokes only what --prune counts', async () => {
    const options = ['--to', 'json', '--output', cli.path('pruned'), '--yes'];
    await cli.ok(...words(...options));
    writeMap(withCalls('recipes', { ocr: ['documents:write'] }));
    expect(await cli.json(...words(...options))).toMatchObject({ summary: { scoped: 1, rotated: 0, revoked: 0 } });
    expect(await cli.fails(...words(...options, '--prune'))).toMatch(/revokes 1 .*recipes → auth.*--prune 1/);
    expect(await cli.fails(...words(...options, '--prune', '2'))).toMatch(/--prune 1/);
    expect(await livePairs()).toEqual(ALL);
    expect(await cli.json(...words(...options, '--prune', '1'))).toMatchObject({ summary: { revoked: 1 } });
    expect(await livePairs()).toEqual(['ocr → auth', 'recipes → ocr']);
  });

  it('takes for_users from a pair whose scopes stay', async () => {
    const writeFor = (for_users: boolean): void =>
      writeMap(withCalls('recipes', { auth: null, ocr: { scopes: ['documents:read'], for_users } }));
    const options = ['--to', 'json', '--output', cli.path('for-users'), '--yes'];
    const readPair = async (): Promise<unknown> => {
      const { body } = (await app.admin.get('/app-credentials?caller=recipes&target=ocr&live=true').expect(200)) as {
        body: { items: { for_users: boolean }[] };
      };
      return body.items.map(({ for_users }) => for_users);
    };
    writeFor(true);
    await cli.ok(...words(...options));
    expect(await readPair()).toEqual([true]);
    writeMap(withCalls('recipes', ['auth', 'ocr']));
    const kept = await run(...options);
    expect(kept.stdout).toMatch(/Scopes that stay, because the map names none:\n {2}recipes → ocr: documents:read\n/);
    expect(kept.stdout).toMatch(/For users changed:\n {2}recipes → ocr: no\n/);
    expect(await readPair()).toEqual([false]);
    writeFor(true);
    expect((await run(...options)).stdout).toMatch(
      /Warning: Under HS256 POST \/internal\/token refuses every exchange/,
    );
    writeFor(false);
    expect(await run('--to', 'json', '--output', cli.path('for-users'), '--plan')).toMatchObject({ code: 3 });
    expect(await cli.json(...words(...options))).toMatchObject({ summary: { scoped: 1, rotated: 0, revoked: 0 } });
    expect(await readPair()).toEqual([false]);
  });

  it('subscribes a service to the events of the map, and changes its types with the map', async () => {
    const options = ['--to', 'json', '--output', cli.path('events'), '--yes'];
    const writeEvents = (events?: readonly string[]): void =>
      writeMap({ services: { ...MAP.services, recipes: { ...MAP.services.recipes, events } } });
    const readTypes = async (): Promise<unknown> =>
      ((await app.admin.get('/event-subscriptions')).body as { items: object[] }).items;
    const subscription = (types: readonly string[]) => ({ service: 'recipes', types });
    await cli.ok(...words(...options));
    writeEvents(['user.deleted', 'user.disabled']);
    const planned = await run(...options.slice(0, -1), '--plan');
    expect(planned.code).toBe(3);
    expect(planned.stdout).toContain('Subscriptions to set:\n  recipes: user.deleted, user.disabled');
    expect(await readTypes()).toEqual([]);
    const applied = await cli.json<{ subscriptions: object[] }>(...words(...options));
    expect(applied.subscriptions).toEqual([subscription(['user.deleted', 'user.disabled'])]);
    expect(await readTypes()).toMatchObject([subscription(['user.deleted', 'user.disabled'])]);
    expect(await cli.ok(...words(...options))).toContain('Nothing was changed.');
    // The order of the types has no meaning.
    writeEvents(['user.disabled', 'user.deleted']);
    expect(await cli.ok(...words(...options))).toContain('Nothing was changed.');
    writeEvents(['user.deleted']);
    await cli.ok(...words(...options));
    expect(await readTypes()).toMatchObject([subscription(['user.deleted'])]);
    writeEvents();
    expect(await cli.ok(...words(...options))).toContain('Nothing was changed.');
    expect(await readTypes()).toMatchObject([subscription(['user.deleted'])]);
    await app.admin.delete('/event-subscriptions/recipes').expect(204);
  });

  it('gives each pair one key when two run at the same time', async () => {
    // The slower one of two that issue a key for one pair is refused.
    const start = (folder: string) => applyHere(cli.path(folder)).catch(() => undefined);
    await Promise.all([start('one'), start('two')]);
    await eventually('a later run finds nothing to do', async () => {
      await start('three');
      return (await run('--to', 'json', '--plan')).code === 0;
    });
    expect(await livePairs()).toEqual(ALL);
    const names = ['one', 'two', 'three'].map((name) => cli.path(name)).filter(existsSync);
    const paths = names.flatMap((folder) => readdirSync(folder).map((name) => `${folder}/${name}`));
    const delivered = paths.flatMap((path) => {
      const { service, variables } = JSON.parse(readFileSync(path, 'utf8')) as Document;
      return Object.keys(variables).flatMap((name) => (name.endsWith('_APP_KEY') ? `${service} ${name}` : []));
    });
    expect(delivered.sort()).toEqual(['ocr AUTH_APP_KEY', 'recipes AUTH_APP_KEY', 'recipes OCR_APP_KEY']);
  });

  it('rotates a key only if it was not rotated since it was read', async () => {
    const { appId } = await app.service();
    const path = `/app-credentials/${appId}/rotate`;
    const [one, two] = await Promise.all([1, 2].map(() => app.admin.post(path, { if_rotated_at: null })));
    expect([one!.status, two!.status].sort()).toEqual([200, 409]);
    const { rotated_at } = (one!.status === 200 ? one! : two!).body as { rotated_at: string };
    const refused = await app.admin.post(path, { if_rotated_at: null });
    expect(refused.body).toMatchObject({ status: 409, code: 'key_rotated_meanwhile' });
    await app.admin.post(path, { if_rotated_at: rotated_at }).expect(200);
    await app.admin.post(path).expect(200);
  });

  it('refuses the root key, unless it is named, and tells a wrong use of its options', async () => {
    const root = cli.with({ ADMIN_API_KEY: ADMIN_KEY });
    expect(await root.fails(...words('--to', 'json', '--yes'))).toContain('operators issue ci --scopes apps');
    expect((await root.run(...words('--to', 'json', '--plan', '--root-key'))).code).toBe(3);
    expect((await run('--yes')).stderr).toContain('--to env needs --output');
    expect((await run('--to', 'json', '--current', 'x', '--output', 'y')).code).toBe(2);
    writeFileSync(cli.path('torn.yaml'), 'kind: Secret\nmetadata: [');
    expect(await cli.fails(...words('--to', 'kubernetes', '--current', 'torn.yaml'))).toMatch(
      /--current cannot be used/,
    );
    for (const [format, text] of [
      ['kubernetes', 'kind: Secret\nmetadata: { name: ocr-env }\ndata: { PIN: 271828 }'],
      ['json', '{"service":"ocr","variables":{"PIN":271828}}'],
    ] as const) {
      writeFileSync(cli.path('number'), text);
      const said = await cli.fails(...words('--to', format, '--current', 'number'));
      expect(said).toMatch(/^--current cannot be used: it does not hold /);
      expect(said).not.toContain('271828');
    }
    const denied = cli.with({ ADMIN_API_KEY: (await app.operator(['nodes'])).key });
    expect(await denied.fails(...words('--to', 'json', '--yes'))).toContain('missing_scope');
  });

  it('takes the name of a service for a name, also that of a member of every object', async () => {
    const { services } = MAP;
    writeMap({
      services: {
        ...services,
        constructor: { url: 'http://127.0.0.1:7707' },
        ocr: { ...services.ocr, calls: ['constructor'] },
      },
    });
    expect((await run('--to', 'json', '--plan')).code).toBe(3);
  });

  it('writes nothing from an answer that this service does not give', async () => {
    const gate = await HttpGate.before(urlOf(app));
    const fails = async (method: string, path: string, ...answer: [status: number, type: string, body: string]) => {
      gate.replaced.clear();
      gate.replaced.set(`${method} ${path}`, answer);
      const folder = cli.path('strange');
      const { code, stderr } = await run('--to', 'env', '--output', folder, '--yes', '--url', gate.url);
      expect([path, answer, code, existsSync(folder) ? readdirSync(folder) : []]).toEqual([path, answer, 1, []]);
      return stderr;
    };
    const json = 'application/json';
    const listed = (app_id: string) => {
      const times = { last_used_at: null, expires_at: null, revoked_at: null };
      const items = [{ app_id, caller: 'ocr', target: 'auth', scopes: null, ...times }];
      return JSON.stringify({ items, next_cursor: null });
    };
    try {
      await fails('GET', '/.well-known/jwks.json', 503, json, '{"code":"unavailable","title":"Not available"}');
      await fails('GET', '/.well-known/jwks.json', 404, 'text/html', '<h1>Not found</h1>');
      await fails('GET', '/.well-known/jwks.json', 200, 'text/html', '<h1>Welcome</h1>');
      await fails('GET', '/.well-known/oauth-authorization-server', 429, json, '{"code":"too_many","title":"Wait"}');
      const list = ['GET', '/api/v0/admin/app-credentials?live=true&limit=100', 200, json] as const;
      expect(await fails(...list, listed('x\nNODE_OPTIONS=y'))).toContain('does not answer as this service does');
      expect(await livePairs()).toEqual([]);
      const issue = ['POST', '/api/v0/admin/app-credentials', 201, json] as const;
      await fails(...issue, '{}');
      await fails(...issue, '{"app_id":"x\\nNODE_OPTIONS=y","app_key":"pa_app_z"}');
      const key = generateKey('pa_app_');
      for (const hostile of ['`id`', 'pa_app_`id`', `${key}\\nNODE_OPTIONS=y`, `${key}$(id)`])
        await fails(...issue, `{"app_id":"${createId()}","app_key":"${hostile}"}`);
      const issuers = [
        'x\nNODE_OPTIONS=y',
        'https://auth.example/\nNODE_OPTIONS=y',
        'https://auth.example/`id`',
        'https://a/$(id)',
      ];
      for (const each of [...issuers, "https://a/'$(id)", 'http://auth.example', 'javascript:x'])
        await fails('GET', '/.well-known/oauth-authorization-server', 200, json, JSON.stringify({ issuer: each }));
    } finally {
      gate.close();
    }
  });

  it('is what doctor checks from afar, without --env-dir', async () => {
    const doctor = ['doctor', '--map', 'platform.json', '--url', urlOf(app), '--json'];
    const { code, stdout } = await cli.run(...doctor);
    expect(code).toBe(1);
    const missing = ALL.map((where): unknown => expect.objectContaining({ where, severity: 'broken' }));
    expect((JSON.parse(stdout) as { findings: object[] }).findings).toEqual(missing);
    await cli.ok(...words('--to', 'json', '--output', cli.path('checked'), '--yes'));
    expect(await cli.ok(...doctor.slice(0, -1))).toContain('No problems found.');
    writeMap(withCalls('recipes', ['auth']));
    expect(await cli.json(...doctor.slice(0, -1))).toMatchObject({
      findings: [{ where: 'recipes → ocr', do: expect.stringContaining('apply --prune') as unknown }],
    });
  });

  it('is what doctor compares its environment files with, where there is no auth.env', async () => {
    const folder = cli.path('compared');
    const doctor = ['doctor', '--map', 'platform.json', '--url', urlOf(app), '--env-dir', folder];
    expect(await cli.ok(...words('--output', folder, '--yes'))).not.toContain('Scopes changed');
    expect(await cli.ok(...doctor)).toMatch(
      /^No problems found\.\n\nThere is no auth\.env, so the files were compared/,
    );
    const file = `${folder}/recipes.env`;
    const changed = readFileSync(file, 'utf8')
      .replace(/^OCR_APP_KEY=.*$/m, '')
      .replace(/^SERVICE_NAME=.*$/m, 'SERVICE_NAME=x');
    writeFileSync(file, changed.replace(/^AUTH_URL=.*$/m, ''));
    const { code, stdout } = await cli.run(...doctor, '--json');
    const repair = `Run apply with --output ${folder}`;
    expect({ code, ...(JSON.parse(stdout) as object) }).toMatchObject({
      code: 1,
      findings: [
        {
          what: 'It does not hold the current key of recipes → ocr.',
          do: `${repair} --rotate-lost recipes, then restart recipes.`,
        },
        { what: 'Not set: AUTH_URL.', do: `${repair}, then restart recipes.` },
        { what: 'SERVICE_NAME is not recipes, as the map or the service says.' },
      ],
    });
  });
});
