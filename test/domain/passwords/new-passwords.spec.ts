import { createHash, randomUUID } from 'node:crypto';
import type { Response } from 'supertest';
import { expectInvalid } from '../../support/expect-problem.js';
import { scrape } from '../../support/scrape.js';
import { serve } from '../../support/serve.js';
import { PASSWORD, UNLEASED } from '../../support/settings.js';
import { useApp, useReplica } from '../../support/use-app.js';

const app = useApp({
  variables: { ...UNLEASED, PASSWORD_CONTEXT_WORDS: 'Umbrella,recipes', PRODUCT_NAME: 'Hearth Home' },
});
const strict = useReplica(app, { variables: { PASSWORD_MIN_LENGTH: '15' } });
const newAddress = (name: string = randomUUID()): string => `${name}@example.org`;

const register = (to: typeof app, password: string, email = newAddress()) =>
  to.post('/api/v0/auth/register', { email, password });

function expectGuessable(answer: Response, pointer = '/password'): void {
  expectInvalid(answer, pointer);
  expect(JSON.stringify(answer.body)).toMatch(/commonly used passwords, or made of/);
}

const SHORT = [
  ...'aaaaaaaa abcdefgh asdasdasd admin123 admin1234 adminadmin Password1! P@$$w0rd p@ssword welcome123 letmein123',
  ...' 1q2w3e4r zaq12wsx 11223344 qwertz123 asdfghjkl! testtest1 dragon2024',
]
  .join('')
  .split(' ');

const LONG =
  'aaaaaaaaaaaaaaa 123456789012345 qwertyuiopasdfg abcdefghijklmno passwordpassword Password1234567 iloveyouiloveyou ' +
  '1q2w3e4r5t6y7u8i zaq12wsxcde34rfv 123123123123123 P@ssw0rdP@ssw0rd Password12345!! administrator123 letmein12345678 ' +
  'qwertyuiopasdfghjklzxcvbnm qwerty123456789 monkeymonkey123 football1234567 987654321987654321 asdfghjklasdfghjkl';

describe('a new password that attackers guess first', () => {
  it.each(SHORT)('is refused at a minimum of 8, with the reason: %s', async (password) => {
    expectGuessable(await register(app, password));
  });

  it.each(LONG.split(' '))('is refused at a minimum of 15, with the reason: %s', async (password) => {
    expectGuessable(await register(strict, password));
  });

  it.each([
    ['the address', 'amelie.durand@gallimard.example'],
    ['parts of the address', 'AmelieDurand1999'],
    ['its domain', 'gallimard12345!'],
    ['the product', 'HearthHome123'],
    ['a word of the operator', 'umbrella-umbrella-recipes'],
  ])('is refused when it is made of %s', async (_what, password) => {
    expectGuessable(await register(app, password, 'amelie.durand@gallimard.example'));
  });

  it.each(['gallimard12345!', 'AmelieDurand1999'])('is accepted for another address: %s', async (password) => {
    await register(app, password).expect(201);
  });

  it.each([
    'correct horse battery staple',
    'two tidy words',
    'Tr0ub4dor&3',
    'zx9kQw2p',
    'é'.repeat(36),
    '🌲'.repeat(64),
    `${'a'.repeat(72)}b`,
  ])('is none that needs more guesses: %s', async (password) => {
    await register(app, password).expect(201);
  });

  it('is refused at a registration, by operators, at a change and at a reset alike', async () => {
    const email = newAddress('josephine');
    expectGuessable(await app.admin.post('/users', { email, password: 'josephine2024' }));
    const user = await app.user(email);
    const { access_token } = await user.logsIn();
    const change = { current_password: user.password, new_password: 'josephine2024' };
    const asUser = app.post('/api/v0/users/me/password', change).set('Authorization', `Bearer ${access_token}`);
    expectGuessable(await asUser, '/new_password');
    const { body } = await app.admin.post(`/users/${user.id}/password-reset`).expect(201);
    const reset = (new_password: string) =>
      app.post('/api/v0/auth/password-reset/confirm', { token: (body as { token: string }).token, new_password });
    expectGuessable(await reset('josephine2024'), '/new_password');
    await reset('a passphrase of another kind').expect(204);
  });
});

describe('PASSWORD_BREACH_CHECK_URL', () => {
  const breached = 'a passphrase that leaked';
  const digest = createHash('sha1').update(breached).digest('hex').toUpperCase();
  const asked: string[] = [];
  let answer: { status: number; body: string };
  let server: Awaited<ReturnType<typeof serve>>;
  let replica: typeof app;
  beforeAll(async () => {
    server = await serve((request, response) => {
      asked.push(request.url ?? '');
      response.writeHead(answer.status).end(answer.body);
    });
    const variables = { METRICS_PORT: '0', PASSWORD_BREACH_CHECK_URL: `${server.url}/range/` };
    replica = await app.startReplica({ variables });
  });
  afterAll(async () => {
    await replica.stop();
    server.close();
  });
  beforeEach(() => {
    asked.length = 0;
    answer = { status: 200, body: `0018A45C4D1DEF81644B54AB7F969B88D65:3\r\n${digest.slice(5)}:12\r\n` };
  });

  it('refuses a password that the service knows, and tells it five digits of the digest', async () => {
    const refused = await register(replica, breached);
    expectInvalid(refused, '/password');
    expect(JSON.stringify(refused.body)).toMatch(/data breaches/);
    expect(asked).toEqual([`/range/${digest.slice(0, 5)}`]);
    await register(replica, PASSWORD).expect(201);
  });

  it('takes a line of padding for no match', async () => {
    answer.body = `${digest.slice(5)}:0\r\n`;
    await register(replica, breached).expect(201);
  });

  it('is not asked about a password that another rule or an unknown token refuses', async () => {
    expectInvalid(await register(replica, 'password'), '/password');
    const reset = { token: `pa_reset_${'x'.repeat(43)}`, new_password: breached };
    await replica.post('/api/v0/auth/password-reset/confirm', reset).expect(400);
    expect(asked).toEqual([]);
  });

  it('accepts passwords while the service fails, says so in the log once, and asks again only later', async () => {
    answer.status = 500;
    for (let i = 0; i < 3; i++) await register(replica, breached).expect(201);
    expect(asked).toHaveLength(1);
    expect(replica.log.lines.filter(({ message }) => message === 'password_breach_check_unavailable')).toHaveLength(1);
    const outcome = 'unavailable';
    expect((await scrape(replica)).value('password_breach_checks_total', { outcome })).toBe(3);
  });
});
