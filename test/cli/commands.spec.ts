import { execFileSync } from 'node:child_process';
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import { PassThrough } from 'node:stream';
import { Command } from 'commander';
import { Client } from 'pg';
import { createProgram } from '../../src/cli/program.js';
import { Cli, useCli } from '../support/cli.js';
import { addYes, createConfirm, Progress } from '../../src/cli/terminal.js';
import { serve } from '../support/serve.js';
import { UNLEASED } from '../support/settings.js';
import { useApp } from '../support/use-app.js';
import { toFailure } from '../../src/cli/failures.js';
import { readSchemaState } from '../../src/foundation/database/migrate.js';
import { claimPort } from '../../tools/claim-port.js';
import { createTestDatabase } from '../support/test-database.js';
import { SHIPPED_MAP } from './own-platform.js';

const ID = '01985f4e-7c3a-7b52-9d1e-2f6a8c4b0d11';
const HOUSEHOLD = '5b1c7a9e-0d35-4c8e-9a57-6f0b1f4f2a10';
const REGISTRATION = ['--household', HOUSEHOLD, '--room', 'kitchen', '--name', 'speaker'];

const help = (command: Command): string => {
  let text = '';
  command.configureOutput({ writeOut: (part) => void (text += part) }).outputHelp();
  return text;
};

const list = (command: Command, path: string): [string, Command][] => [
  [path, command],
  ...command.commands.flatMap((each) => list(each, `${path} ${each.name()}`)),
];

const root = createProgram('0', { json: false });

describe('--help', () => {
  it('names the exit codes', () => {
    expect(help(root)).toMatch(/Exit codes: 0 done, 1 failed .*, 2 wrong usage, 3 .*, 141 /);
  });

  it.each(list(root, 'platform-auth').slice(1))(
    'of %s describes the command and its options, names the variables that it needs, and gives an example',
    (path, command) => {
      const text = help(command);
      expect(command.description()).not.toBe('');
      expect(command.options.filter(({ description }) => description === '')).toEqual([]);
      if (/ (completion|schema)$/.test(path)) expect(text).toMatch(/\nExample:\n {2}\S/);
      else expect(text).toMatch(new RegExp(`\\b(ADMIN_API_KEY|DATABASE_URL)\\b[^]*\nExample:\n  .*${path}`));
    },
  );
});

it.each([
  ['nodes', 'revok'],
  ['users', 'delet'],
  ['init', '--prun'],
])('a misspelt command is not answered with a similar one, which may destroy something: %s %s', async (...words) => {
  const cli = new Cli('http://127.0.0.1:1');
  const { code, stderr } = await cli.run(...words);
  expect(code).toBe(2);
  expect(stderr).not.toMatch(/did you mean|revoke|delete|--prune/i);
});

it('`help nodes issue` prints the help of `nodes issue`', async () => {
  const cli = new Cli('http://127.0.0.1:1');
  expect(await cli.ok('help nodes issue')).toBe(await cli.ok('nodes issue --help'));
  expect(await cli.ok('help nodes')).toBe(await cli.ok('nodes --help'));
});

it('explain says what to type when it gets an e-mail address in place of a command', async () => {
  const cli = new Cli('http://127.0.0.1:1');
  const { code, stderr } = await cli.run('explain alice@example.org');
  expect(code).toBe(2);
  expect(stderr).toMatch(
    /unknown command 'alice@example\.org'\. Type: platform-auth explain user alice@example\.org\n/,
  );
  expect((await cli.run('explain nod')).stderr).toMatch(/^error: unknown command 'nod'\n/);
});

const GROUPS = ['nodes', 'apps', 'users', 'households', 'operators', 'explain', 'audit'];

describe('platform-auth completion', () => {
  const cli = new Cli('http://127.0.0.1:1');
  let script = '';

  beforeAll(async () => {
    script = cli.path('completion.bash');
    writeFileSync(script, await cli.ok('completion bash'));
  });

  /** What bash offers after these words; the last one is being typed. */
  const complete = (...words: string[]): string[] => {
    const line = ['platform-auth', ...words].map((word) => `'${word}'`).join(' ');
    const program = `source '${script}'; COMP_WORDS=(${line}); COMP_CWORD=${words.length}; _platform_auth; printf '%s\\n' "\${COMPREPLY[@]}"`;
    return execFileSync('bash', ['-c', program], { cwd: cli.folder, encoding: 'utf8' }).trim().split('\n');
  };

  it('of bash offers commands, subcommands, options and files', () => {
    expect(complete('')).toEqual(expect.arrayContaining(['init', 'doctor', 'status', 'map', ...GROUPS]));
    expect(complete('nodes', 'r')).toEqual(['rotate', 'revoke']);
    expect(complete('nodes', 'list', '--un')).toEqual(['--unused-for']);
    expect(complete('nodes', 'revoke', 'some-id', '--y')).toEqual(['--yes']);
    expect(complete('init', '--map', 'comple')).toEqual(['completion.bash']);
  });

  it.each([
    ['zsh', /^#compdef platform-auth\n[^]*complete .*_platform_auth/],
    [
      'fish',
      /complete -c platform-auth -n '__fish_seen_subcommand_from nodes' -f -a issue -d 'Issue the key of a new node/,
    ],
  ])('of %s is printed', async (shell, expected) => {
    expect(await cli.ok(`completion ${shell}`)).toMatch(expected);
  });
});

const QUESTION = 'This would end the world.';

/** What is asked on a terminal, or without one. @param answer undefined: the input ends */
const ask = async (isTTY: boolean, parameters: string[], answer?: string, question = QUESTION) => {
  const command = addYes(new Command()).parse(parameters, { from: 'user' });
  const stdin = Object.assign(new PassThrough(), { isTTY });
  const stderr = Object.assign(new PassThrough(), { isTTY });
  stdin.end(answer);
  await createConfirm(command, { stdin, stderr } as unknown as NodeJS.Process)(question);
  return String(stderr.read() ?? '');
};

describe('an act that cannot be undone', () => {
  it.each(['y\n', 'yes\n', ' Y \n'])('is done when the answer on the terminal is %j', async (answer) => {
    expect(await ask(true, [], answer)).toBe(`${QUESTION} Continue? [y/N] `);
  });

  it('is asked about without the control characters of a name from outside', async () => {
    expect(await ask(true, [], 'y\n', 'This deletes \u001b[2K\r.')).toBe(
      'This deletes \ufffd[2K\ufffd. Continue? [y/N] ',
    );
  });

  it.each(['n\n', '\n', 'yeah\n', undefined])('is not done when the answer is %j', async (answer) => {
    await expect(ask(true, [], answer)).rejects.toMatchObject({ code: 'not_confirmed' });
  });

  it('is not done without a terminal, whatever arrives on standard input', async () => {
    await expect(ask(false, [], 'y\n')).rejects.toMatchObject({
      code: 'confirmation_required',
      message: `${QUESTION} Add --yes to confirm. It was not done.`,
    });
  });

  it.each(['--yes', '-y'])('is done without a question with %s', async (option) => {
    expect(await ask(false, [option])).toBe('');
  });
});

describe('a command whose output is not read', () => {
  const app = useApp({ variables: UNLEASED });
  const cli = useCli(app);

  beforeAll(async () => {
    await (await app.user()).logsIn();
    await app.node();
  });

  it.each<[string[]]>([
    [['users', 'revoke-sessions', '--help']],
    [['audit']],
    [['audit', '--follow', '--since', '1h']],
    [['users', 'list']],
    [['nodes', 'list', '--json']],
  ])('%j ends quietly with exit code 141, as a shell reports SIGPIPE', async (parameters) => {
    const { code, stderr } = await cli.runIntoClosedPipe(...parameters);
    expect({ code, stderr }).toEqual({ code: 141, stderr: '' });
  });

  it('reports no success of an export that was not read', async () => {
    const onDatabase = cli.with({ DATABASE_URL: app.database.url });
    const { code, stderr } = await onDatabase.runIntoClosedPipe('users export --yes');
    expect({ code, stderr }).toEqual({ code: 141, stderr: '' });
  });

  it.each([
    'apps issue --caller ocr --target auth',
    `apps rotate ${ID}`,
    'operators issue carol --scopes read',
    'operators rotate carol',
    `nodes issue ${REGISTRATION.join(' ')}`,
    `nodes rotate ${ID} --format env`,
    'apply --map platform.yaml --to json --root-key --yes',
  ])('%s makes no key where standard output is closed', async (line) => {
    copyFileSync(SHIPPED_MAP, cli.path('platform.yaml'));
    const { code, stderr } = await cli.runInto('&-', line);
    expect({ code, stderr }).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('closed or discarded: no key was made.'),
    });
    const keys = await app.database.query(
      `SELECT room FROM nodes UNION ALL SELECT caller FROM app_credentials UNION ALL SELECT name FROM operators`,
    );
    // The node of the other tests.
    expect(keys).toEqual([{ room: 'kitchen' }]);
  });

  it('says why standard output cannot be written', async () => {
    const full = new Cli('http://127.0.0.1:9').with({ NO_COLOR: '1' });
    const { code, stderr } = await full.runInto('/dev/full', 'users', '--help');
    expect({ code, stderr }).toEqual({ code: 1, stderr: 'Standard output cannot be written: the disk is full.\n' });
  });
});

function show(isTTY: boolean, total: number | undefined, ...steps: [done: number, lines: number][]): string[] {
  const written: string[] = [];
  const write = (text: string | Uint8Array): boolean => written.push(String(text)) > 0;
  const progress = new Progress(total, { isTTY, write });
  for (const [done, lines] of steps) progress.show(done, lines);
  progress.clear();
  return written;
}

describe('the progress of a long command', () => {
  it('is a bar on a terminal, which is removed at the end', () => {
    expect(show(true, 200, [0, 0], [100, 1_000], [200, 2_000])).toEqual([
      `\r[${'-'.repeat(30)}]   0 % 0 lines`,
      `\r[${'#'.repeat(15)}${'-'.repeat(15)}]  50 % 1000 lines`,
      `\r[${'#'.repeat(30)}] 100 % 2000 lines`,
      '\r\u001b[K',
    ]);
  });

  it('is a count of lines on a terminal when the size is not known', () => {
    expect(show(true, undefined, [100, 1_000])[0]).toBe('\r1000 lines');
  });

  it('is a line for each 10,000 lines elsewhere', () => {
    const steps = Array.from({ length: 25 }, (_, index): [number, number] => [index, (index + 1) * 1_000]);
    expect(show(false, 25, ...steps)).toEqual(['… 10000 lines so far\n', '… 20000 lines so far\n']);
  });
});

const systemError = (code: string, more: object = {}): Error =>
  Object.assign(new Error(`${code}: raw`), { code, ...more });

describe('a failure', () => {
  it.each([
    [
      systemError('EROFS', { path: 'env/auth.env' }),
      'file_unusable',
      /^env\/auth\.env cannot be used: its file system is read-only\. .*run this again/,
    ],
    [systemError('ENOSPC'), 'file_unusable', /the disk is full/],
    [systemError('ECONNREFUSED', { syscall: 'connect' }), 'database_unreachable', /refused\. Start PostgreSQL/],
    [
      systemError('ENOENT', { syscall: 'connect', path: '/run/x' }),
      'database_unreachable',
      /socket .*Start PostgreSQL/,
    ],
    [new AggregateError([systemError('ECONNREFUSED'), systemError('ECONNREFUSED')]), 'database_unreachable', /refused/],
    [new Error('timeout expired'), 'database_unreachable', /did not answer in time/],
    [systemError('42501'), 'database_forbidden', /role that owns the tables/],
  ])('%s is reported as %s, with the next step', (error, code, message) => {
    expect(toFailure(error)).toEqual({ code, message: expect.stringMatching(message) });
  });

  it('of another kind is reported as unexpected', () => {
    expect(toFailure(new TypeError('x is undefined'))).toEqual({
      code: 'unexpected',
      message: 'Unexpected error: x is undefined',
    });
  });

  it('of a database that does not exist, or of its password, says what to correct', async () => {
    const database = await createTestDatabase({ isEmpty: true });
    const url = (change: (url: URL) => void): string => {
      const changed = new URL(database.url);
      change(changed);
      return changed.href;
    };
    const missing = await readSchemaState(url((it) => (it.pathname = '/missing'))).catch(toFailure);
    expect(missing).toMatchObject({ code: 'database_missing', message: expect.stringContaining('createdb') });
    const client = new Client({ connectionString: database.url });
    await client.connect();
    const old = await client.query('SELECT revoked_at FROM app_credentials').catch(toFailure);
    expect(old).toMatchObject({ code: 'schema_outdated', message: expect.stringContaining('platform-auth migrate') });
    await client.end();
    await database.drop();
  });
});

describe('--json', () => {
  let url = '';
  const cli = new Cli(() => url);

  beforeAll(async () => {
    url = `http://127.0.0.1:${await claimPort()}`;
  });

  it.each<[string[], number, string, RegExp]>([
    [
      ['nodes', 'list'],
      1,
      'service_unreachable',
      /Connection to http:\/\/127\.0\.0\.1:\d+ refused: is the service running/,
    ],
    [['nodes', 'list', '--household', 'x'], 2, 'usage', /It must be a UUID/],
    [['nodes', 'issue'], 2, 'usage', /required option '--household <uuid>'/],
    [['nodes'], 2, 'usage', /No command is named\. See --help\./],
    [['nonsense'], 2, 'usage', /unknown command 'nonsense'/],
    [['init', '--map', 'missing.yaml', '--env-dir', 'env'], 1, 'map_unusable', /missing\.yaml cannot be read: /],
    [['migrate'], 1, 'configuration_unusable', /DATABASE_URL is required[^]*docs\/operations\/embedded-database\.md$/],
    [['users', 'import', '/dev/null'], 1, 'configuration_unusable', /docs\/operations\/embedded-database\.md$/],
  ])('%j fails with one line of JSON on standard error', async (parameters, exitCode, code, message) => {
    const { code: exited, stdout, stderr } = await cli.run(...parameters, '--json');
    expect({ exited, stdout }).toEqual({ exited: exitCode, stdout: '' });
    expect(stderr.trim().split('\n')).toHaveLength(1);
    expect(JSON.parse(stderr)).toEqual({ code, message: expect.stringMatching(message) });
  });
});

describe('platform-auth, when the response to a change never arrives', () => {
  let service: Awaited<ReturnType<typeof serve>>;
  let cli: Cli;

  beforeAll(async () => {
    service = await serve((request, response) => {
      const oldest_unread = {
        id: `${ID}:user.deleted`,
        type: 'user.deleted',
        subject: ID,
        time: '2026-11-21T09:00:00Z',
      };
      const resource = JSON.stringify({ node_id: ID, targets: null, oldest_unread });
      if (request.method === 'GET') response.setHeader('Content-Type', 'application/json').end(resource);
      else if (request.url === '/internal/validate-node') response.end();
      else request.socket.destroy();
    });
    cli = new Cli(service.url);
  });

  afterAll(() => service.close());

  it.each<[string[], RegExp]>([
    [
      ['apps', 'rotate', ID],
      /Run this again: a new key made by the lost call is not shown\. The old one is valid until/,
    ],
    [
      ['nodes', 'rotate', ID],
      /Run this again: a new key made by the lost call is not shown\. The old one is valid until/,
    ],
    [['apps', 'revoke', ID, '--yes'], /Run this again: the change is idempotent/],
    [['nodes', 'revoke', ID, '--yes'], /Run this again: the change is idempotent/],
    [['users', 'disable', ID], /Run this again: the change is idempotent/],
    [['events', 'skip', 'recipes', '--yes'], /Run this again only if it is still user\.deleted .* of 2026-/],
    [['nodes', 'issue', ...REGISTRATION], new RegExp(`nodes list --household ${HOUSEHOLD}.*revoke it\\. Then run`)],
  ])('%j says what to do next', async (parameters, advice) => {
    const said = await cli.fails(...parameters);
    expect(said).toMatch(/Whether it was done is not known\./);
    expect(said).toMatch(advice);
  });

  it('nodes rotate --config says to run it again, and does not change the file', async () => {
    const path = cli.path('node.json');
    const text = JSON.stringify({ node_id: ID, api_key: 'pa_node_old' });
    writeFileSync(path, text);
    expect(await cli.fails(`nodes rotate ${ID} --config ${path}`)).toMatch(
      /not known\.\n.*Run this again: the key in .*node\.json is as valid as before\./,
    );
    expect(readFileSync(path, 'utf8')).toBe(text);
  });

  it('says that nothing was changed when the connection is refused, at PORT when only that is set', async () => {
    const port = await claimPort();
    const said = await cli.with({ AUTH_URL: '', PORT: String(port) }).fails(`apps rotate ${ID}`);
    expect(said).toContain(`Connection to http://127.0.0.1:${port} refused`);
    expect(said).not.toMatch(/not known|again/);
  });
});
