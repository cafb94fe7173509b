import { Piscina } from 'piscina';
import { problems } from '../../src/problems/problems.js';
import { expectProblem } from '../support/expect-problem.js';
import { PASSWORD } from '../support/settings.js';
import { useApp, useReplica } from '../support/use-app.js';
import { countByStatus, expectThrottled } from '../support/throttled.js';

const LIMIT = 10;
const WRONG = 'not her passphrase';
const LIMITS = {
  LOGIN_LIMIT_PER_ACCOUNT_AND_ADDRESS: `${LIMIT}/900`,
  LOGIN_LIMIT_PER_ACCOUNT: '100/900',
  LOGIN_LIMIT_PER_ADDRESS: '1000/900',
};

describe('wrong passwords for one account from one address', () => {
  const one = useApp({ variables: LIMITS });
  const two = useReplica(one);

  /** Tries in parallel, alternating between the replicas. */
  const guess = (times: number, emailOf: (index: number) => string, password = WRONG) =>
    Promise.all(Array.from({ length: times }, (_, index) => (index % 2 ? one : two).login(emailOf(index), password)));

  it('are counted exactly over two replicas: 1,000 concurrent guesses cost only as many bcrypts as the limit', async () => {
    const alice = await one.user();
    const run = jest.spyOn(Piscina.prototype, 'run');
    try {
      const answers = await guess(1_000, () => alice.email);
      expect(countByStatus(answers)).toEqual({ 401: LIMIT, 429: 1_000 - LIMIT });
      for (const answer of answers) {
        if (answer.status === 401) expectProblem(answer, problems.invalidCredentials);
        else expect(expectThrottled(answer)).toMatchObject({ policy: 'login-account-address', points: LIMIT });
      }
      expect(run).toHaveBeenCalledTimes(LIMIT);
    } finally {
      run.mockRestore();
    }
  });

  it('are counted the same way for an unknown account', async () => {
    const answers = await guess(100, () => 'unknown@example.org');
    expect(countByStatus(answers)).toEqual({ 401: LIMIT, 429: 100 - LIMIT });
  });

  it('share one count for every letter case of the address', async () => {
    const spellings = ['mixed@example.org', 'MIXED@example.org', 'Mixed@Example.ORG'];
    const answers = await guess(100, (index) => spellings[index % 3]!);
    expect(countByStatus(answers)).toEqual({ 401: LIMIT, 429: 100 - LIMIT });
  });

  it('are refused with the same response whether the account exists or not, also with the right password', async () => {
    const bob = await one.user();
    await guess(LIMIT, () => bob.email);
    await guess(LIMIT, () => 'no-bob@example.org');
    const seen = [await two.login(bob.email, PASSWORD), await two.login('no-bob@example.org')].map((answer) => {
      expectThrottled(answer);
      const { request_id, instance, ...body } = answer.body as Record<string, unknown>;
      expect([typeof request_id, typeof instance]).toEqual(['string', 'string']);
      return { body, headers: Object.keys(answer.headers), policy: answer.headers['ratelimit-policy'] };
    });
    expect(seen[1]).toEqual(seen[0]);
  });

  it('log an event with the limit and the network, without the account', async () => {
    const carol = await one.user();
    await guess(LIMIT, () => carol.email);
    const before = one.log.events('user.login.throttled').length;
    expectThrottled(await one.login(carol.email));
    expect(one.log.events('user.login.throttled').slice(before)).toMatchObject([
      { level: 'warn', reason: 'login-account-address', address: '127.0.0.1' },
    ]);
    expect(JSON.stringify(one.log.lines)).not.toContain(carol.email);
  });

  it('are counted, good logins are not: 50 at once pass, and leave the whole budget', async () => {
    const dave = await one.user();
    expect(countByStatus(await guess(50, () => dave.email, PASSWORD))).toEqual({ 200: 50 });
    expect(countByStatus(await guess(50, () => dave.email))).toEqual({ 401: LIMIT, 429: 50 - LIMIT });
  });

  it('do not refuse concurrent good logins while budget is left', async () => {
    const erin = await one.user();
    const [good, bad] = await Promise.all([guess(50, () => erin.email, PASSWORD), guess(LIMIT - 1, () => erin.email)]);
    expect(countByStatus([...good, ...bad])).toEqual({ 200: 50, 401: LIMIT - 1 });
  });

  it('never refuse a valid app or node key', async () => {
    const [node, service] = [await one.node(), await one.service()];
    await guess(2 * LIMIT, () => 'frank@example.org');
    const answers = await Promise.all(
      Array.from({ length: 100 }, (_, index) =>
        index % 2 ? one.validateNode(node.header) : one.validateApp(service.headers),
      ),
    );
    expect(countByStatus(answers)).toEqual({ 200: 100 });
  });
});
