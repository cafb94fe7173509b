import { randomUUID } from 'node:crypto';
import { problems } from '../../src/problems/problems.js';
import { expectProblem } from '../support/expect-problem.js';
import type { User } from '../support/test-app.js';
import { useApp } from '../support/use-app.js';

describe('a password', () => {
  const app = useApp();

  const expectOnly = async (user: User, others: string[]): Promise<void> => {
    for (const other of others) expectProblem(await app.login(user.email, other), problems.invalidCredentials);
    await app.login(user.email, user.password).expect(200);
  };
  const hashOf = async ({ id }: User): Promise<string> => {
    const rows = await app.database.query<{ hash: string }>('SELECT password_hash AS hash FROM users WHERE id = $1', [
      id,
    ]);
    return rows[0]!.hash;
  };

  it('is compared to its last byte, beyond the 72 bytes that bcrypt reads', async () => {
    const common = 'x'.repeat(72);
    await expectOnly(await app.user(undefined, `${common}a`), [`${common}b`, common, `${common}aa`]);
    await expectOnly(await app.user(undefined, common), [`${common}a`, 'x'.repeat(71)]);
    await expectOnly(await app.user(undefined, `${common.repeat(3)}a`), [`${common.repeat(3)}b`]);
    // The 73rd byte is the middle of a character.
    await expectOnly(await app.user(undefined, `${'x'.repeat(71)}é`), [`${'x'.repeat(71)}è`]);
  });

  it('may have 64 characters of four bytes each', async () => {
    const trees = '🌲'.repeat(64);
    await expectOnly(await app.user(undefined, trees), ['🌲'.repeat(63), `${'🌲'.repeat(63)}🌳`]);
  });

  it('is compared beyond a NUL, where bcrypt stops reading', async () => {
    await expectOnly(await app.user(undefined, 'eight ch\0one'), ['eight ch\0two', 'eight ch', 'eight ch\0']);
    await expectOnly(await app.user(undefined, 'eight ch'), ['eight ch\0', 'eight ch\0one']);
    await expectOnly(await app.user(undefined, '\0first of all'), ['\0', '\0another']);
  });

  it('is compared as typed: neither trimmed, nor case-folded, nor normalised', async () => {
    await expectOnly(await app.user(undefined, ' Pass phrase of mine '), [
      'Pass phrase of mine',
      ' pass phrase of mine ',
      ' Pass  phrase of mine ',
    ]);
    await expectOnly(await app.user(undefined, 'caf\u00e9 au lait'), ['cafe\u0301 au lait', 'cafe au lait']);
  });

  it.each(['an ordinary phrase', 'y'.repeat(100), 'with a\0 NUL'])(
    'is stored as a standard bcrypt hash, which is not itself accepted: %p',
    async (password) => {
      const user = await app.user(undefined, password);
      const hash = await hashOf(user);
      expect(hash).toMatch(/^\$2b\$04\$[./A-Za-z0-9]{53}$/);
      await expectOnly(user, [hash]);
    },
  );

  it('is salted: two users with the same password have different hashes', async () => {
    const [one, two] = [await app.user(), await app.user()];
    expect(one.password).toBe(two.password);
    expect(await hashOf(one)).not.toBe(await hashOf(two));
  });

  it('is refused when it is not valid UTF-8, because replacement characters would make two passwords equal', async () => {
    const email = `${randomUUID()}@example.org`;
    const send = (path: string, byte: number) =>
      app
        .post(`/api/v0/auth/${path}`)
        .set('Content-Type', 'application/json')
        // Sends the raw bytes.
        .serialize((bytes: unknown) => bytes as string)
        .send(Buffer.from(`{"email":"${email}","password":"eight ch${String.fromCharCode(byte)}"}`, 'latin1'));
    const answers = [await send('register', 0xff), await send('login', 0xfe)];
    expect(answers.map(({ status }) => status)).toEqual([400, 400]);
    for (const answer of answers) expectProblem(answer, problems.malformedRequest);
  });
});
