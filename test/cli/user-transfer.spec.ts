import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import type { ImportReport } from '../../src/cli/database/user-transfer.js';
import { eventually } from '../../tools/eventually.js';
import { withClient } from '../../tools/postgres.js';
import { recorded } from '../domain/audit/record.js';
import { holdWrites } from '../support/row-lock.js';
import { useCli } from '../support/cli.js';
import { createTestDatabase } from '../support/test-database.js';
import { UNLEASED } from '../support/settings.js';
import { TestApp } from '../support/test-app.js';
import { useApp } from '../support/use-app.js';
import { VECTORS } from '../domain/users/foreign-hashes.js';

const HASH = '$2y$05$ojPk9YnUuv2.JYqFWjuUoeABv8G9Dc3bYyj8pxjz7HWQZhbC04yxq';
const HASHED = 'correct horse battery';

// Each command is a process, and another test may have the processor.
jest.setTimeout(240_000);

describe('platform-auth users import', () => {
  const app = useApp({ variables: UNLEASED });
  const http = useCli(app);
  const cli = () => http.with({ DATABASE_URL: app.database.url });
  let files = 0;

  const write = (lines: readonly (object | string)[]): string => {
    files += 1;
    const path = http.path(`users-${files}.ndjson`);
    writeFileSync(path, lines.map((line) => `${typeof line === 'string' ? line : JSON.stringify(line)}\n`).join(''));
    return path;
  };
  const account = (name: string, more: object = {}) => ({ email: `${name}@example.org`, password_hash: HASH, ...more });
  const usersLike = (pattern: string) =>
    app.database.query<{ email: string; is_active: boolean; created_at: Date }>(
      'SELECT email, is_active, created_at FROM users WHERE email LIKE $1 ORDER BY email',
      [pattern],
    );

  /** Holds an import at the batch of this account, so that it is not over before the test ends it. */
  const holdAt = ({ email }: { email: string }) => holdWrites(app.database, 'users', `NEW.email = '${email}'`);
  const connected = (name: string) =>
    app.database.query('SELECT FROM pg_stat_activity WHERE application_name = $1', [name]);

  it('keeps id, state and time of creation, and makes addresses canonical', async () => {
    const id = '01985f4e-7c3a-7b52-9d1e-2f6a8c4b0d11';
    const more = { id, is_active: false, created_at: '2020-01-02T03:04:05.678Z' };
    await cli().ok('users', 'import', write([account('Kept', more)]));
    expect((await app.admin.get(`/users/${id}`).expect(200)).body).toMatchObject({
      ...{ id, email: 'kept@example.org', is_active: false, created_at: more.created_at },
    });
    await app.login('kept@example.org', HASHED).expect(401);
  });

  it('refuses lines by number and reason, never showing what they hold, and imports the others', async () => {
    const path = write([
      account('good-1'),
      account('CANARY', { password_hash: 'CANARY' }),
      'CANARY {',
      '',
      account('good-2'),
      account('expensive', { password_hash: HASH.replace('$05$', '$31$') }),
      'x'.repeat(70_000),
      account('hostile', { households: [{ id: randomUUID(), name: 'CANARY\0', role: 'admin' }] }),
    ]);
    const { code, stdout, stderr } = await cli().run(`users import ${path} --json`);
    expect(code).toBe(1);
    expect(JSON.parse(stderr)).toMatchObject({ code: 'lines_refused' });
    const report = JSON.parse(stdout) as ImportReport;
    expect(report).toMatchObject({ lines: 8, blank: 1, imported: 2, existing: 0, refused: 5 });
    expect(report.refused_lines.map(({ line, code: reason }) => [line, reason])).toEqual([
      [2, 'hash_unsupported'],
      [3, 'not_json'],
      [6, 'hash_out_of_bounds'],
      [7, 'unreadable'],
      [8, 'households_invalid'],
    ]);
    expect(stdout + stderr).not.toMatch(/CANARY|\$2y\$\d/i);
    expect((await usersLike('good-%')).map(({ email }) => email)).toEqual(['good-1@example.org', 'good-2@example.org']);
    const text = await cli().run(`users import ${path}`);
    expect(text.stdout).toMatch(/^Lines: 8\. Imported: 0\. Existed before: 2\. Refused: 5\. Blank: 1\.\n/);
    expect(text.stderr).toMatch(/^Refused lines: 5\./);
  });

  it('says of each refused line what is expected', async () => {
    const refused = [
      [{ password_hash: HASH }, /^email is missing$/],
      [{ ...account('x'), password_hash: 1 }, /^password_hash must be text, or a credential of Keycloak$/],
      [
        { ...account('x'), created_at: '2020-01-01T00:00:00' },
        /^created_at must be .* with an offset, such as 2020-.*Z/,
      ],
      [
        { ...account('x'), CANARY: 1 },
        /^it has an unknown field; the known ones are id, email, password_hash, made_by,/,
      ],
    ] as const;
    const path = write([account('expected'), ...refused.map(([line]) => line)]);
    const { stdout } = await cli().run(`users import ${path} --json`);
    expect((JSON.parse(stdout) as ImportReport).refused_lines).toMatchObject(
      refused.map(([, reason], index) => ({ line: index + 2, reason: expect.stringMatching(reason) })),
    );
    expect(stdout).not.toContain('CANARY');
  });

  it('imports CSV with a header, and counts the accounts without a password', async () => {
    const rows = ['', 'email,password_hash,is_active', `csv-1@example.org,${HASH},true`, '"csv-2@example.org",,'];
    const path = write([...rows, 'csv-3@example.org,CANARY', `csv-4@example.org,${HASH},false`]);
    const planned = await cli().run(`users import ${path} --dry-run`);
    expect(planned.stdout).toContain(
      'Would be imported: 3. Existed before: 0. Refused: 1. Blank: 1. Without a password: 1;',
    );
    const { stdout } = await cli().run(`users import ${path} --json`);
    const { refused_lines, ...report } = JSON.parse(stdout) as ImportReport;
    expect(report).toMatchObject({ lines: 6, blank: 1, imported: 3, without_password: 1, existing: 0, refused: 1 });
    expect(refused_lines).toMatchObject([{ line: 5, code: 'not_csv' }]);
    expect((await usersLike('csv-%')).map(({ is_active }) => is_active)).toEqual([true, true, false]);
    await app.login('csv-1@example.org', HASHED).expect(200);
    await app.login('csv-2@example.org', '').expect(400);
    await app.login('csv-2@example.org', HASHED).expect(401);
    expect((await recorded(app, { event: 'users.imported' }))[0]).toMatchObject({
      details: { imported: 3, without_password: 1 },
    });
  });

  it('says in one sentence that a file is not what it imports, and imports nothing of it', async () => {
    const lines = Array.from({ length: 1_001 }, (_, index) => `CANARY-${index}@example.org;${HASH}`);
    const { code, stdout, stderr } = await cli().run('users', 'import', write(['email;password', ...lines]));
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toMatch(/^Nothing was imported: the first line is neither .* nor a CSV header/);
    expect(stderr).not.toMatch(/CANARY/);
    const before = await recorded(app, { event: 'users.import_started' });
    await cli().run('users', 'import', write([{ _id: 1, email: 'canary@example.org' }, account('canary')]));
    expect(await usersLike('canary%')).toEqual([]);
    expect(await recorded(app, { event: 'users.import_started' })).toHaveLength(before.length);
  });

  it('counts an address or an id that the file repeats once, also with --dry-run and in another batch', async () => {
    const id = '01985f4e-7c3a-7b52-9d1e-2f6a8c4b0d12';
    const many = Array.from({ length: 1_000 }, (_, index) => account(`repeated-${index}`));
    const lines = [...many, account('REPEATED-0'), account('one', { id }), account('two', { id }), account('two')];
    const path = write(lines);
    const planned = await cli().json<ImportReport>(`users import ${path} --dry-run`);
    expect(planned).toMatchObject({ imported: 1_002, existing: 2, refused: 0 });
    expect(await cli().json<ImportReport>(`users import ${path}`)).toEqual({ ...planned, dry_run: false });
  });

  it('leaves an account that exists as it is, and takes the first of two lines with one address', async () => {
    const alice = await app.user();
    const path = write([
      account('x', { email: alice.email }),
      account('twice'),
      account('TWICE', { is_active: false }),
    ]);
    const report = await cli().json<ImportReport>(`users import ${path}`);
    expect(report).toMatchObject({ imported: 1, existing: 2, refused: 0 });
    await app.login(alice.email).expect(200);
    expect(await usersLike('twice@%')).toMatchObject([{ is_active: true }]);
  });

  it.each([
    ['id', 'other'],
    ['id and address', 'first'],
  ])('ignores the households of a line that is skipped because it repeats the %s of another', async (what, second) => {
    const [id, household] = [randomUUID(), randomUUID()];
    const named = (name: string) => account(`${name}-${what.replaceAll(' ', '-')}`, { id });
    const path = write([
      { ...named('first'), households: [{ id: household, role: 'member' }] },
      {
        ...named(second),
        households: [
          { id: household, role: 'admin' },
          { id: randomUUID(), role: 'admin' },
        ],
      },
    ]);
    expect(await cli().json<ImportReport>(`users import ${path}`)).toMatchObject({ imported: 1, existing: 1 });
    const roles = await app.database.query('SELECT household_id, role FROM household_members WHERE user_id = $1', [id]);
    expect(roles).toEqual([{ household_id: household, role: 'member' }]);
  });

  it('changes nothing with --dry-run, and reports what it would do', async () => {
    const path = write([account('dry-1'), account('dry-2'), 'nonsense']);
    await cli().run('users', 'import', write([account('dry-1')]));
    const { stdout } = await cli().run(`users import ${path} --dry-run --json`);
    expect(JSON.parse(stdout)).toMatchObject({ dry_run: true, imported: 1, existing: 1, refused: 1 });
    expect(await usersLike('dry-%')).toHaveLength(1);
  });

  it('records one event a run with its counts, beside the one of its start, and none when nothing was added', async () => {
    const path = write([account('audited-1'), account('audited-2'), 'nonsense']);
    const before = (await recorded(app, { actor: 'cli' })).length;
    await cli().run(`users import ${path}`);
    await cli().run(`users import ${path}`);
    const events = (await recorded(app, { actor: 'cli' })).slice(0, -before || undefined);
    expect(events).toMatchObject([
      { event: 'users.imported', details: { imported: 2, existing: 0, refused: 1 } },
      { event: 'users.import_started', actor: { door: 'cli', id: null } },
    ]);
    expect(events[0]!.subject).toBe(events[1]!.subject);
    expect(JSON.stringify(events)).not.toMatch(/@|\$2/);
  });

  it('goes on where a run that was killed stopped', async () => {
    const path = write(Array.from({ length: 8_000 }, (_, index) => account(`many-${index}`)));
    const hold = await holdAt(account('many-5000'));
    const url = `${app.database.url}?application_name=import-that-is-killed`;
    const run = http.with({ DATABASE_URL: url }).start(`users import ${path}`);
    const imported = async (): Promise<number> => (await usersLike('many-%')).length;
    await eventually('the first batch is committed', async () => (await imported()) > 0);
    run.kill();
    await run.ended;
    await hold.release();
    // PostgreSQL ends the statement at hand first, whose batch may be committed.
    await eventually('it is over', async () => (await connected('import-that-is-killed')).length === 0);
    await hold.remove();
    const sofar = await imported();
    expect(sofar).toBeLessThan(8_000);
    expect(sofar % 1_000).toBe(0);
    const report = await cli().run(`users import ${path} --json`);
    expect(JSON.parse(report.stdout)).toMatchObject({ imported: 8_000 - sofar, existing: sofar, refused: 0 });
    expect(await imported()).toBe(8_000);
    await app.login('many-7999@example.org', HASHED).expect(200);
  });

  it('ends after the batch at hand when it is interrupted, and records what it did', async () => {
    const path = write(Array.from({ length: 8_000 }, (_, index) => account(`stopped-${index}`)));
    const hold = await holdAt(account('stopped-5000'));
    const run = cli().start(`users import ${path} --json`);
    await eventually('the first batch is committed', async () => (await usersLike('stopped-%')).length > 0);
    run.kill('SIGINT');
    await hold.release();
    const { code, stdout, stderr } = await run.ended;
    expect({ code, stderr: JSON.parse(stderr) as unknown }).toMatchObject({ code: 1, stderr: { code: 'interrupted' } });
    await hold.remove();
    const { imported, lines, ...report } = JSON.parse(stdout) as ImportReport;
    expect(report).toMatchObject({ interrupted: true, refused: 0 });
    expect(imported).toBe(lines);
    expect(await usersLike('stopped-%')).toHaveLength(imported);
    expect((await recorded(app, { actor: 'cli' }))[0]).toMatchObject({
      event: 'users.imported',
      details: { imported },
    });
  });

  it('ends at the first interruption also while it waits for a pipe, and imports the lines that have come', async () => {
    const url = `${app.database.url}?application_name=import-of-a-pipe`;
    const piped = http
      .with({ DATABASE_URL: url })
      .withInput(`${JSON.stringify(account('early'))}\n`, { staysOpen: true });
    const run = piped.start('users import - --json');
    await eventually('it has connected', async () => (await connected('import-of-a-pipe')).length > 0);
    run.kill('SIGINT');
    const { code, stdout, stderr } = await run.ended;
    expect({ code, stderr: JSON.parse(stderr) as unknown }).toMatchObject({ code: 1, stderr: { code: 'interrupted' } });
    const { imported, lines } = JSON.parse(stdout) as ImportReport;
    expect(imported).toBe(lines);
    expect(await usersLike('early@%')).toHaveLength(imported);
  });

  it('reads standard input as -', async () => {
    const text = `${JSON.stringify(account('piped'))}\n${JSON.stringify(account('last'))}`;
    expect(await cli().withInput(text).json<ImportReport>('users import -')).toMatchObject({ lines: 2, imported: 2 });
  });

  it('names a file that cannot be read, and a database that cannot be used', async () => {
    expect(await cli().fails(`users import ${http.path('missing')}`)).toMatch(
      /missing cannot be used: it does not exist/,
    );
    const away = http.with({ DATABASE_URL: 'postgresql://127.0.0.1:9/x' });
    expect(await away.fails('users', 'import', write([account('away')]))).toMatch(/^The connection to the database/);
  });
});

describe('platform-auth users export', () => {
  const app = useApp({ variables: UNLEASED });
  const http = useCli(app);
  const cli = () => http.with({ DATABASE_URL: app.database.url });

  it('asks for a confirmation, because it contains password hashes', async () => {
    const file = http.path('refused.ndjson');
    expect(await cli().fails(`users export -o ${file}`)).toMatch(/password hash of every account.*Add --yes/);
    expect(() => statSync(file)).toThrow();
  });

  it('gives back what an import brought and what users registered: every password works on another service', async () => {
    const long = 'y'.repeat(150);
    const [alice, bob] = [await app.user(), await app.user(undefined, long)];
    await app.admin.patch(`/users/${bob.id}`, { is_active: false }).expect(200);
    const { householdId } = await app.node();
    await app.admin.patch(`/households/${householdId}`, { name: 'home' }).expect(200);
    for (const [user_id, role] of [
      [alice.id, 'admin'],
      [bob.id, 'member'],
    ])
      await app.admin.post(`/households/${householdId}/members`, { user_id, role }).expect(201);
    const lines = VECTORS.map(({ hash }, i) =>
      JSON.stringify({ email: `v${i}@example.org`, password_hash: hash, email_verified: i % 2 === 0 }),
    );
    lines.push(JSON.stringify({ email: 'without@example.org' }));
    const input = http.path('in.ndjson');
    writeFileSync(input, lines.join('\n'));
    const none = { dry_run: false, blank: 0, existing: 0, refused: 0, interrupted: false, refused_lines: [] };
    const counts = { lines: lines.length, imported: lines.length, without_password: 1 };
    expect(await cli().json<ImportReport>(`users import ${input}`)).toEqual({ ...none, ...counts });

    const file = http.path('out.ndjson');
    expect(await cli().json(`users export --yes -o ${file}`)).toEqual({ exported: VECTORS.length + 3 });
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(readFileSync(file, 'utf8')).not.toMatch(/totp|passkey|session|digest/);

    const database = await createTestDatabase();
    const second = await TestApp.start({ variables: UNLEASED, database });
    const there = http.with({ DATABASE_URL: database.url });
    expect(await there.json<ImportReport>(`users import ${file}`)).toMatchObject({
      imported: VECTORS.length + 3,
      without_password: 1,
      refused: 0,
    });
    await second.login(alice.email).expect(200);
    const moved = (await second.admin.get(`/households/${householdId}`).expect(200)).body as object;
    expect(moved).toMatchObject({ name: 'home', members: 2, active_admins: 1 });
    await second.login(bob.email, long).expect(401);
    await second.admin.patch(`/users/${bob.id}`, { is_active: true }).expect(200);
    await second.login(bob.email, long).expect(200);
    await second.login(bob.email, `${long}z`).expect(401);
    const again = http.path('again.ndjson');
    const everyLine = (path: string): string[] => readFileSync(path, 'utf8').split('\n').sort();
    await http.with({ DATABASE_URL: app.database.url }).ok(`users export --yes -o ${again}`);
    expect(everyLine(again)).toEqual(everyLine(file));
    const verified = await second.database.query('SELECT id FROM users WHERE email_verified_at IS NOT NULL');
    expect(verified).toHaveLength(Math.ceil(VECTORS.length / 2));
    for (const [index, { password }] of VECTORS.entries())
      await second.login(`v${index}@example.org`, password).expect(200);
    await second.stop();
    await database.drop();
  });

  it('gives back the households of an account that is in 100, with the longest names', async () => {
    const alice = await app.user();
    const longest = '😀'.repeat(100);
    await app.database.query(
      `WITH made AS (INSERT INTO households (id, name, created_at, updated_at)
         SELECT gen_random_uuid(), $2, now(), now() FROM generate_series(1, 100) RETURNING id)
       INSERT INTO household_members (household_id, user_id, role, since) SELECT id, $1, 'member', now() FROM made`,
      [alice.id, longest],
    );
    const file = http.path('many-households.ndjson');
    await cli().ok(`users export --yes -o ${file}`);
    await app.admin.delete(`/users/${alice.id}`).expect(204);
    expect(await cli().json<ImportReport>(`users import ${file}`)).toMatchObject({ imported: 1, refused: 0 });
    const members = 'SELECT FROM household_members WHERE user_id = $1';
    expect(await app.database.query(members, [alice.id])).toHaveLength(100);
  });

  it('stops before the lines that give a household more than 100 members', async () => {
    const id = randomUUID();
    const lineOf = (number: number) =>
      JSON.stringify({ email: `${number}-${id}@example.org`, households: [{ id, role: 'member' }] });
    const file = http.path('home.ndjson');
    const write = (length: number) =>
      writeFileSync(file, Array.from({ length }, (_, index) => lineOf(index)).join('\n'));
    write(101);
    expect(await cli().fails(`users import ${file}`)).toContain(
      'a household would have more than 100 members, among the 101 accounts up to line 101. None of these was imported',
    );
    await app.admin.get(`/households/${id}`).expect(404);
    write(100);
    expect(await cli().json<ImportReport>(`users import ${file}`)).toMatchObject({ imported: 100 });
    expect((await app.admin.get(`/households/${id}`).expect(200)).body).toMatchObject({ members: 100 });
  });

  it('leaves no file when it is interrupted', async () => {
    const file = http.path('interrupted.ndjson');
    await withClient(app.database.url, async (client) => {
      await client.query('BEGIN; LOCK TABLE users');
      const run = cli().start(`users export --yes --json -o ${file}`);
      await eventually('the file is open', () => existsSync(file));
      run.kill('SIGINT');
      await client.query('COMMIT');
      const { code, stderr } = await run.ended;
      expect({ code, stderr: JSON.parse(stderr) as unknown }).toMatchObject({
        code: 1,
        stderr: { code: 'interrupted' },
      });
    });
    expect(existsSync(file)).toBe(false);
  });

  it('does not overwrite a file, and leaves none behind when it fails', async () => {
    const file = http.path('taken.ndjson');
    writeFileSync(file, 'mine');
    expect(await cli().fails(`users export --yes -o ${file}`)).toMatch(/there is a file of that name already/);
    expect(readFileSync(file, 'utf8')).toBe('mine');
    const other = http.path('failed.ndjson');
    const away = http.with({ DATABASE_URL: 'postgresql://127.0.0.1:9/x' });
    expect(await away.fails(`users export --yes -o ${other}`)).toMatch(/^The connection to the database/);
    expect(() => statSync(other)).toThrow();
  });

  it('writes to standard output, in pages, and is recorded', async () => {
    await app.database.query(`INSERT INTO users (id, email, password_hash, is_active, created_at, updated_at)
      SELECT gen_random_uuid(), 'bulk-' || i || '@example.org', '${HASH}', true, now(), now() FROM generate_series(1, 2500) i`);
    const [row] = await app.database.query<{ count: string }>('SELECT count(*) FROM users');
    const { code, stdout, stderr } = await cli().run('users export --yes');
    const lines = stdout.trimEnd().split('\n');
    expect({ code, stderr }).toEqual({ code: 0, stderr: `Exported accounts: ${row!.count}.\n` });
    const emails = lines.map((line) => (JSON.parse(line) as { email: string }).email);
    expect(String(new Set(emails).size)).toBe(row!.count);
    const [exported] = await recorded(app, { event: 'users.exported' });
    expect(exported).toMatchObject({ actor: { door: 'cli', id: null }, details: { accounts: Number(row!.count) } });
  });
});

describe('splitting a file into lines', () => {
  const linesOf = async (...chunks: Buffer[]) => {
    const { splitLines } = await import('../../src/cli/database/user-transfer.js');
    const { Readable } = await import('node:stream');
    const found: [number, string | undefined, number][] = [];
    const source = Readable.from(chunks, { objectMode: true });
    for await (const { number, text, endsAt } of splitLines(source, 8)) found.push([number, text, endsAt]);
    if (!source.destroyed) await once(source, 'close');
    return found;
  };

  it('holds across chunks, with and without a last line feed', async () => {
    expect(await linesOf(Buffer.from('ab\ncd'), Buffer.from('e\n'), Buffer.from('\nf'))).toEqual([
      [1, 'ab', 3],
      [2, 'cde', 7],
      [3, '', 8],
      [4, 'f', 10],
    ]);
  });

  it('reports a line that is too long or is not UTF-8 without its text, and goes on', async () => {
    expect(await linesOf(Buffer.from('123456789\n'), Buffer.from([0xff, 0x0a]), Buffer.from('12345678\n'))).toEqual([
      [1, undefined, 10],
      [2, undefined, 12],
      [3, '12345678', 21],
    ]);
  });
});
