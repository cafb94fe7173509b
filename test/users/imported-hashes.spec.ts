import { randomUUID } from 'node:crypto';
import { Piscina } from 'piscina';
import { problems } from '../../src/problems/problems.js';
import { parseAccountLine } from '../../src/users/account-transfer.js';
import { expectProblem } from '../support/expect-problem.js';
import { useApp } from '../support/use-app.js';
import { LONG, VECTORS, type ForeignVector } from './foreign-hashes.js';

describe('an account with a hash that another system made', () => {
  const app = useApp();

  const importHash = async (hash: ForeignVector['hash'], madeBy?: string): Promise<string> => {
    const email = `${randomUUID()}@example.org`;
    const text = JSON.stringify({ email, password_hash: hash, made_by: madeBy });
    const { id, passwordHash } = parseAccountLine(text, new Date());
    await app.database.query(
      'INSERT INTO users (id, email, password_hash, is_active, created_at, updated_at) VALUES ($1, $2, $3, true, now(), now())',
      [id, email, passwordHash],
    );
    return email;
  };
  const hashOf = async (email: string): Promise<string> => {
    const rows = await app.database.query<{ hash: string }>(
      'SELECT password_hash AS hash FROM users WHERE email = $1',
      [email],
    );
    return rows[0]!.hash;
  };

  /** What the worker threads did for a login that is refused. */
  const tasksOfRefusedLogin = async (email: string, password: string): Promise<string[]> => {
    const run = jest.spyOn(Piscina.prototype, 'run');
    try {
      expectProblem(await app.login(email, password), problems.invalidCredentials);
      return run.mock.calls.map(([, options]) => (options as { name: string }).name);
    } finally {
      run.mockRestore();
    }
  };

  it.each(
    VECTORS.map((vector): [string, ForeignVector] => [`${vector.madeBy}: ${vector.password.slice(0, 21)}`, vector]),
  )('logs in with its password and no other, and then has a hash of ours (%s)', async (_name, { password, hash }) => {
    const email = await importHash(hash);
    const imported = await hashOf(email);
    for (const wrong of [`!${password}`, password.toUpperCase(), 'x'])
      expectProblem(await app.login(email, wrong), problems.invalidCredentials);
    expect(await hashOf(email)).toBe(imported);
    await app.login(email, password).expect(200);
    expect(await hashOf(email)).toMatch(/^\$2b\$04\$/);
    await app.login(email, password).expect(200);
    expectProblem(await app.login(email, `${password}x`), problems.invalidCredentials);
  });

  it('is truncated at 72 bytes by bcrypt until the first login, and compared in full from then on', async () => {
    const bcrypt = VECTORS.find(({ madeBy, password }) => madeBy === 'passlib $2b$' && password === LONG)!;
    const email = await importHash(bcrypt.hash);
    await app.login(email, `${'x'.repeat(72)} and another end`).expect(200);
    expectProblem(await app.login(email, LONG), problems.invalidCredentials);
  });

  it('refuses a password with a NUL, which other systems cut there', async () => {
    const { hash, password } = VECTORS[1]!;
    expectProblem(await app.login(await importHash(hash), `${password}\0`), problems.invalidCredentials);
  });

  it('keeps the reduction of long passwords when this service made the hash', async () => {
    const alice = await app.user(undefined, LONG);
    const email = await importHash(await hashOf(alice.email), 'platform-auth');
    await app.login(email, LONG).expect(200);
    expectProblem(await app.login(email, `${LONG}x`), problems.invalidCredentials);
    expectProblem(await app.login(await importHash(await hashOf(alice.email)), LONG), problems.invalidCredentials);
  });

  it('is verified in a worker thread, and a wrong password costs one verification', async () => {
    expect(await tasksOfRefusedLogin(await importHash(VECTORS[0]!.hash), 'wrong')).toEqual(['verifyForeign']);
  });

  it('is logged in by concurrent logins, all of which succeed', async () => {
    const { hash, password } = VECTORS.find(({ madeBy }) => madeBy === 'argon2-cffi')!;
    const email = await importHash(hash);
    const answers = await Promise.all(Array.from({ length: 20 }, () => app.login(email, password)));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
    expect(await hashOf(email)).toMatch(/^\$2b\$04\$/);
  });

  it.each([
    [
      'beyond the bounds',
      '$argon2id$v=19$m=4194304,t=100,p=1$c2FsdHNhbHRzYWx0$avVGt5+HC0VN/rlUOv/nBktF2xn8SNwPfzN9Bu7bTjw',
    ],
    ['of a cost beyond the bounds', '$2y$31$ojPk9YnUuv2.JYqFWjuUoeABv8G9Dc3bYyj8pxjz7HWQZhbC04yxq'],
    ['unreadable', 'nonsense'],
    ['and cut', '$2b$nonsense'],
  ])(
    'whose hash another hand wrote %s costs the same as an unknown account, and matches no password',
    async (_why, hash) => {
      const email = await importHash(VECTORS[0]!.hash);
      await app.database.query('UPDATE users SET password_hash = $2 WHERE email = $1', [email, hash]);
      expect(await tasksOfRefusedLogin(email, VECTORS[0]!.password)).toEqual(['verify']);
    },
  );

  it('may change its password without a login in between', async () => {
    const { hash, password } = VECTORS.find(({ madeBy }) => madeBy === 'Django')!;
    const email = await importHash(hash);
    const { body } = await app.login(email, password).expect(200);
    await app.database.query('UPDATE users SET password_hash = $2 WHERE email = $1', [email, hash]);
    const change = { current_password: password, new_password: 'quite another passphrase' };
    const bearer = `Bearer ${(body as { access_token: string }).access_token}`;
    await app.post('/api/v0/users/me/password', change).set('Authorization', bearer).expect(204);
    await app.login(email, change.new_password).expect(200);
  });
});
