import { randomUUID } from 'node:crypto';
import { HashingThreads } from '../../../src/domain/passwords/hashing-threads.js';
import { problems } from '../../../src/foundation/problems/problems.js';
import { expectProblem } from '../../support/expect-problem.js';
import { PASSWORD, UNLEASED } from '../../support/settings.js';
import { useApp, useReplica } from '../../support/use-app.js';
import { countByStatus, expectThrottled } from '../../support/throttled.js';
import { recorded } from '../../domain/audit/record.js';
import { IS_NIGHTLY } from '../../../tools/nightly.js';
import { toNetworks } from '../../../src/foundation/common/network.js';
import { TestApp } from '../../support/test-app.js';

const LIMIT = 10;

const WRONG = 'not her passphrase';

const GUESSES = IS_NIGHTLY ? 1_000 : 200;

const LIMITS = {
  ...UNLEASED,
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

  it('are counted exactly over two replicas: concurrent guesses cost only as many bcrypts as the limit', async () => {
    const alice = await one.user();
    const run = jest.spyOn(HashingThreads.prototype, 'run');
    try {
      const answers = await guess(GUESSES, () => alice.email);
      expect(countByStatus(answers)).toEqual({ 401: LIMIT, 429: GUESSES - LIMIT });
      for (const answer of answers) {
        if (answer.status === 401) expectProblem(answer, problems.invalidCredentials);
        else expect(expectThrottled(answer)).toMatchObject({ policy: 'login-account-address', points: LIMIT });
      }
      expect(run).toHaveBeenCalledTimes(LIMIT);
    } finally {
      run.mockRestore();
    }
  });

  it('no longer refuse on any replica once an operator has removed the throttles of the user', async () => {
    const carol = await one.user();
    await guess(4 * LIMIT, () => carol.email);
    for (const replica of [one, two]) expectThrottled(await replica.login(carol.email));
    await one.admin.delete(`/users/${carol.id}/throttles`).expect(204);
    for (const replica of [two, one]) await replica.login(carol.email).expect(200);
    const removals = { subject: carol.id, event: 'admin.user.throttles_removed' };
    expect(await recorded(one, removals)).toMatchObject([{ actor: { door: 'admin' }, count: 2 }]);
    await one.admin.delete(`/users/${randomUUID()}/throttles`).expect(404);
  });

  it('share one count for every letter case of the address, also for an unknown account', async () => {
    const spellings = ['mixed@example.org', 'MIXED@example.org', 'Mixed@Example.ORG'];
    const answers = await guess(3 * LIMIT, (index) => spellings[index % 3]!);
    expect(countByStatus(answers)).toEqual({ 401: LIMIT, 429: 2 * LIMIT });
  });

  it('are refused with the same response whether the account exists or not, also with the right password', async () => {
    const bob = await one.user();
    await guess(LIMIT, () => bob.email);
    await guess(LIMIT, () => 'no-bob@example.org');
    const before = two.log.events('user.login.throttled').length;
    const seen = [await two.login(bob.email, PASSWORD), await two.login('no-bob@example.org')].map((answer) => {
      expectThrottled(answer);
      const { request_id, instance, ...body } = answer.body as Record<string, unknown>;
      expect([typeof request_id, typeof instance]).toEqual(['string', 'string']);
      return { body, headers: Object.keys(answer.headers), policy: answer.headers['ratelimit-policy'] };
    });
    expect(seen[1]).toEqual(seen[0]);
    const logged = { level: 'warn', reason: 'login-account-address', address: '127.0.0.1' };
    expect(two.log.events('user.login.throttled').slice(before)).toMatchObject([logged, logged]);
    expect(JSON.stringify(two.log.lines)).not.toContain(bob.email);
  });

  it('are counted, good logins are not: 50 at once pass beside wrong ones, and leave the rest of the budget', async () => {
    const dave = await one.user();
    const [good, bad] = await Promise.all([guess(50, () => dave.email, PASSWORD), guess(LIMIT - 1, () => dave.email)]);
    expect(countByStatus([...good, ...bad])).toEqual({ 200: 50, 401: LIMIT - 1 });
    expect(countByStatus(await guess(LIMIT, () => dave.email))).toEqual({ 401: 1, 429: LIMIT - 1 });
  });

  it('never refuse a valid app or node key', async () => {
    const [node, service] = [await one.node(), await one.service()];
    await guess(2 * LIMIT, () => 'frank@example.org');
    await one.validateNode(node.header).expect(200);
    await one.validateApp(service.headers).expect(200);
  });
});

const EMAIL = 'unknown@example.org';

describe('the throttled address', () => {
  const LIMIT = 3;
  const LIMITS = {
    ...UNLEASED,
    LOGIN_LIMIT_PER_ACCOUNT_AND_ADDRESS: `${LIMIT}/900`,
    REFRESH_LIMIT_PER_ADDRESS: `${LIMIT}/900`,
  };

  const behindProxy = useApp({ variables: { ...LIMITS, LOGIN_LIMIT_PER_ADDRESS: `${LIMIT}/900`, TRUST_PROXY: '1' } });

  it.each([
    ['192.0.2.7', '192.0.2.7'],
    ['::ffff:192.0.2.7', '192.0.2.7'],
    ['2001:db8:0:7::1', '2001:db8:0:7::/64', '2001:db8:0::/48'],
    ['2001:0DB8:0000:0007:ffff::2', '2001:db8:0:7::/64', '2001:db8:0::/48'],
    ['2001:db8::1', '2001:db8:0:0::/64', '2001:db8:0::/48'],
    ['::1', '0:0:0:0::/64', '0:0:0::/48'],
    ['1:2:3:4:5:6:7:8', '1:2:3:4::/64', '1:2:3::/48'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64', 'fe80:0:0::/48'],
    ['not an address', 'unknown'],
    ['', 'unknown'],
    [undefined, 'unknown'],
  ])('of %p is in the network %s', (address, ...networks) => {
    expect(toNetworks(address)).toEqual(networks);
  });

  const tryFrom = (app: TestApp, addresses: string[]) =>
    Promise.all(addresses.map((address) => app.login(EMAIL).set('X-Forwarded-For', address)));

  it('is not a forged X-Forwarded-For, which is not logged either', async () => {
    const app = await TestApp.start({ variables: LIMITS });
    const forged = Array.from({ length: 20 }, (_, index) => `203.0.113.${index}`);
    expect(countByStatus(await tryFrom(app, forged))).toEqual({ 401: LIMIT, 429: 20 - LIMIT });
    const refreshes = forged.map((address) => app.refresh('unknown').set('X-Forwarded-For', address));
    expect(countByStatus(await Promise.all(refreshes))).toEqual({ 401: LIMIT, 429: 20 - LIMIT });
    expect(app.log.events('user.login.throttled')).toHaveLength(20 - LIMIT);
    expect(JSON.stringify(app.log.lines)).not.toContain('203.0.113');
    await app.stop();
  });

  it('is the one that the trusted proxy saw, also after forged entries', async () => {
    const forged = Array.from({ length: 20 }, (_, index) => `203.0.113.${index}, 198.51.100.1`);
    expect(countByStatus(await tryFrom(behindProxy, forged))).toEqual({ 401: LIMIT, 429: 20 - LIMIT });
    expect(countByStatus(await tryFrom(behindProxy, ['198.51.100.2']))).toEqual({ 401: 1 });
    expect(behindProxy.log.events('user.login.throttled')[0]).toMatchObject({ address: '198.51.100.1' });
    expect(JSON.stringify(behindProxy.log.lines)).not.toContain('203.0.113');
  });

  it('is also the /48 of an IPv6 address, with 16 times the budget', async () => {
    const sites = (count: number, text: string) =>
      Array.from({ length: count }, (_, index) => `2001:db8:${text}:${(index + 1).toString(16)}::1`);
    const refreshes = (addresses: string[]) =>
      Promise.all(addresses.map((address) => behindProxy.refresh('unknown').set('X-Forwarded-For', address)));
    const accounts = (addresses: string[]) =>
      Promise.all(addresses.map((address, n) => behindProxy.login(`${n}@example.org`).set('X-Forwarded-For', address)));
    const counts = { 401: 16 * LIMIT, 429: 60 - 16 * LIMIT };
    expect(countByStatus(await refreshes(sites(60, 'a')))).toEqual(counts);
    expect(countByStatus(await refreshes(sites(1, 'b')))).toEqual({ 401: 1 });
    const answers = await accounts(sites(60, 'a'));
    expect(countByStatus(answers)).toEqual(counts);
    const refused = expectThrottled(answers.find(({ status }) => status === 429)!);
    expect(refused).toMatchObject({ policy: 'login-address', points: 16 * LIMIT });
    expect(countByStatus(await accounts(sites(1, 'b')))).toEqual({ 401: 1 });
  });
});

describe('one IPv6 customer', () => {
  const app = useApp({
    variables: {
      ...UNLEASED,
      LOGIN_LIMIT_PER_ACCOUNT_AND_ADDRESS: '5/60',
      LOGIN_LIMIT_PER_ACCOUNT: '40/900',
      TRUST_PROXY: '1',
    },
  });
  const toAddress = (prefix: string, index: number): string =>
    `2001:db8:${prefix}${index.toString(16).padStart(2, '0')}::1`;

  it.each([
    ['a /64', (index: number) => `2001:db8:7:7:${index.toString(16)}::1`, 5],
    ['a /56', (index: number) => toAddress('7:1', index), 10],
    ['a /48', (index: number) => toAddress(`8:${index.toString(16)}`, index), 10],
  ])('with %s uses up a part of the limit of an account', async (_what, at, points) => {
    const alice = await app.user();
    const guess = (index: number) => app.login(alice.email, 'wrong').set('X-Forwarded-For', at(index));
    const answers = await Promise.all(Array.from({ length: 60 }, (_, index) => guess(index)));
    expect(countByStatus(answers)).toEqual({ 401: points, 429: 60 - points });
    await app.login(alice.email).set('X-Forwarded-For', '2001:db8:9::1').expect(200);
  });
});

const PER_PAIR = 5;

const PER_ACCOUNT = 40;

const PER_ADDRESS = 20;

/** Few enough for a busy machine, where more calls at once would wait too long for a connection (503). */
const ADDRESSES = 300;

const HOME = '198.51.100.7';

describe('an attacker who guesses passwords', () => {
  const LIMITS = {
    ...UNLEASED,
    TRUST_PROXY: '1',
    LOGIN_LIMIT_PER_ACCOUNT_AND_ADDRESS: `${PER_PAIR}/900`,
    LOGIN_LIMIT_PER_ACCOUNT: `${PER_ACCOUNT}/900`,
    LOGIN_LIMIT_PER_ADDRESS: `${PER_ADDRESS}/900`,
  };

  const one = useApp({ variables: LIMITS });
  const two = useReplica(one);

  const loginFrom = (address: string, email: string, password = PASSWORD, app = one) =>
    app.login(email, password).set('X-Forwarded-For', address);

  /** Each guess comes from another address, alternating between the replicas. */
  const guessFromEverywhere = (times: number, email: string) =>
    Promise.all(
      Array.from({ length: times }, (_, index) =>
        loginFrom(`203.0.${index >> 8}.${index & 255}`, email, WRONG, index % 2 ? one : two),
      ),
    );

  it('gets only the limit of the account from 300 addresses', async () => {
    const answers = await guessFromEverywhere(ADDRESSES, 'unknown@example.org');
    expect(countByStatus(answers)).toEqual({ 401: PER_ACCOUNT, 429: ADDRESSES - PER_ACCOUNT });
    const refused = answers.filter(({ status }) => status === 429).map(expectThrottled);
    expect(new Set(refused.map(({ policy }) => policy))).toEqual(new Set(['login-account']));
  });

  it('does not lock the owner out at an address where she logged in before', async () => {
    const alice = await one.user();
    await loginFrom(HOME, alice.email).expect(200);
    const answers = await guessFromEverywhere(ADDRESSES, alice.email);
    expect(countByStatus(answers)).toEqual({ 401: PER_ACCOUNT, 429: ADDRESSES - PER_ACCOUNT });
    await loginFrom(HOME, alice.email).expect(200);
    const many = Array.from({ length: 50 }, (_, index) =>
      loginFrom(HOME, alice.email, PASSWORD, index % 2 ? one : two),
    );
    expect(countByStatus(await Promise.all(many))).toEqual({ 200: 50 });
    // At a new address, she is throttled like the attacker.
    expectThrottled(await loginFrom('192.0.2.1', alice.email));
  });

  it('gets the limit of one address at an address that the account knows', async () => {
    const bob = await one.user();
    await loginFrom(HOME, bob.email).expect(200);
    await guessFromEverywhere(PER_ACCOUNT, bob.email);
    const answers = await Promise.all(Array.from({ length: 50 }, () => loginFrom(HOME, bob.email, WRONG)));
    expect(countByStatus(answers)).toEqual({ 401: PER_PAIR, 429: 50 - PER_PAIR });
    expect(expectThrottled(await loginFrom(HOME, bob.email))).toMatchObject({ policy: 'login-account-address' });
  });

  it('with one password for many accounts is throttled by address, without locking out known users of it', async () => {
    const office = '192.0.2.77';
    const carol = await one.user();
    await loginFrom(office, carol.email).expect(200);
    const spray = Array.from({ length: 100 }, (_, index) => loginFrom(office, `u${index}@example.org`));
    expect(countByStatus(await Promise.all(spray))).toEqual({ 401: PER_ADDRESS, 429: 100 - PER_ADDRESS });
    const refused = expectThrottled(await loginFrom(office, 'another@example.org'));
    expect(refused).toMatchObject({ policy: 'login-address', points: PER_ADDRESS, windowSeconds: 900 });
    await loginFrom(office, carol.email).expect(200);
  });

  it('does not make an address known by guessing', async () => {
    const dave = await one.user();
    await guessFromEverywhere(PER_ACCOUNT, dave.email);
    expectThrottled(await loginFrom('203.0.0.1', dave.email, WRONG));
    const disabled = await one.user();
    await one.admin.patch(`/users/${disabled.id}`, { is_active: false }).expect(200);
    expectProblem(await loginFrom('192.0.2.5', disabled.email), problems.invalidCredentials);
    await guessFromEverywhere(PER_ACCOUNT, disabled.email);
    expectThrottled(await loginFrom('192.0.2.5', disabled.email));
  });
});
