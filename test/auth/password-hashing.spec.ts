import { randomUUID } from 'node:crypto';
import { problems } from '../../src/problems/problems.js';
import { expectProblem } from '../support/expect-problem.js';
import { PASSWORD } from '../support/settings.js';
import type { TestApp, User } from '../support/test-app.js';
import { useApp } from '../support/use-app.js';

const BUSY = problems.hashingBusy;

describe('a full hashing queue', () => {
  const app = useApp({ variables: { BCRYPT_COST: '9' }, settings: { hashThreads: 1, hashQueueLimit: 1 } });

  it('answers 503 with Retry-After to logins that it cannot verify', async () => {
    const alice = await app.user();
    const answers = await Promise.all(Array.from({ length: 30 }, () => app.login(alice.email)));
    const refused = answers.filter(({ status }) => status !== 200);
    expect(refused.length).toBeGreaterThan(0);
    expect(refused.length).toBeLessThan(answers.length);
    for (const answer of refused) expectProblem(answer, BUSY);
    await app.login(alice.email).expect(200);
  });

  it('answers 503 to guesses at unknown accounts too', async () => {
    const answers = await Promise.all(Array.from({ length: 30 }, () => app.login('unknown@example.org')));
    const busy = answers.filter(({ status }) => status === BUSY.status);
    expect(busy.length).toBeGreaterThan(0);
    for (const answer of busy) expectProblem(answer, BUSY);
    const judged = answers.filter(({ status }) => status !== BUSY.status);
    expect(judged.length).toBeGreaterThan(0);
    for (const answer of judged) expectProblem(answer, problems.invalidCredentials);
  });

  it('does not create the user when it answers 503', async () => {
    const bodies = Array.from({ length: 30 }, () => ({ email: `${randomUUID()}@example.org`, password: PASSWORD }));
    const answers = await Promise.all(bodies.map((body) => app.post('/api/v0/auth/register', body)));
    const turnedAway = answers.flatMap((answer, i) => (answer.status === 201 ? [] : [{ answer, ...bodies[i]! }]));
    expect(turnedAway.length).toBeGreaterThan(0);
    for (const { answer, email } of turnedAway) {
      expectProblem(answer, BUSY);
      expect(await app.database.query('SELECT id FROM users WHERE email = $1', [email])).toEqual([]);
    }
  });

  it('does not delay requests that need no password hash', async () => {
    const alice = await app.user();
    const { access_token, refresh_token } = await alice.logsIn();
    const crowd = Array.from({ length: 30 }, () => app.login(alice.email).then(({ status }) => status));
    await app.me(access_token).expect(200);
    await app.refresh(refresh_token).expect(200);
    expect(await Promise.all(crowd)).toContain(BUSY.status);
  });
});

describe('the cost of a stored hash', () => {
  const app = useApp({ variables: { BCRYPT_COST: '5' } });

  const withReplicaOfCost = async (cost: string, use: (replica: TestApp) => Promise<unknown>): Promise<void> => {
    const replica = await app.startReplica({ variables: { BCRYPT_COST: cost } });
    await use(replica);
    await replica.stop();
  };
  const hashOf = async ({ id }: User): Promise<string> => {
    const rows = await app.database.query<{ hash: string }>('SELECT password_hash AS hash FROM users WHERE id = $1', [
      id,
    ]);
    return rows[0]!.hash;
  };

  it('stays the same when the configured cost is lower', async () => {
    const alice = await app.user();
    const original = await hashOf(alice);
    expect(original).toMatch(/^\$2b\$05\$/);
    await withReplicaOfCost('4', (cheaper) => cheaper.login(alice.email).expect(200).then());
    expect(await hashOf(alice)).toBe(original);
  });

  it.each(['an ordinary passphrase', 'x'.repeat(100), 'with a\0 NUL'])(
    'is raised at the next login, and the password %p stays valid',
    async (password) => {
      const alice = await app.user(undefined, password);
      await withReplicaOfCost('6', (dearer) => dearer.login(alice.email, password).expect(200).then());
      expect(await hashOf(alice)).toMatch(/^\$2b\$06\$/);
      await app.login(alice.email, password).expect(200);
      expectProblem(await app.login(alice.email, `${password}!`), problems.invalidCredentials);
    },
  );

  it('is not raised by a refused login', async () => {
    const [alice, disabled] = [await app.user(), await app.user()];
    await app.admin.patch(`/users/${disabled.id}`, { is_active: false }).expect(200);
    const originals = [await hashOf(alice), await hashOf(disabled)];
    await withReplicaOfCost('6', async (dearer) => {
      expectProblem(await dearer.login(alice.email, 'not her passphrase'), problems.invalidCredentials);
      expectProblem(await dearer.login(disabled.email), problems.invalidCredentials);
    });
    expect([await hashOf(alice), await hashOf(disabled)]).toEqual(originals);
  });

  it('is raised by concurrent logins too, which are all accepted', async () => {
    const alice = await app.user();
    await withReplicaOfCost('6', async (dearer) => {
      const answers = await Promise.all(Array.from({ length: 20 }, () => dearer.login(alice.email)));
      expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
    });
    expect(await hashOf(alice)).toMatch(/^\$2b\$06\$/);
    await app.login(alice.email).expect(200);
  });
});
