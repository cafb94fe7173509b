import { problems } from '../../src/problems/problems.js';
import { expectProblem } from '../support/expect-problem.js';
import { PASSWORD } from '../support/settings.js';
import { useApp, useReplica } from '../support/use-app.js';
import { countByStatus, expectThrottled } from '../support/throttled.js';

const PER_PAIR = 5;
const PER_ACCOUNT = 40;
const PER_ADDRESS = 20;
/** Few enough for a busy machine, where more calls at once would wait too long for a connection (503). */
const ADDRESSES = 300;
const LIMITS = {
  TRUST_PROXY: '1',
  LOGIN_LIMIT_PER_ACCOUNT_AND_ADDRESS: `${PER_PAIR}/900`,
  LOGIN_LIMIT_PER_ACCOUNT: `${PER_ACCOUNT}/900`,
  LOGIN_LIMIT_PER_ADDRESS: `${PER_ADDRESS}/900`,
};
const HOME = '198.51.100.7';
const WRONG = 'not her passphrase';

describe('an attacker who guesses passwords', () => {
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
