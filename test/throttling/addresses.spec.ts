import { toNetwork, toNetworks } from '../../src/common/network.js';
import { TestApp } from '../support/test-app.js';
import { countByStatus, expectThrottled } from '../support/throttled.js';

const LIMIT = 3;
const LIMITS = { LOGIN_LIMIT_PER_ACCOUNT_AND_ADDRESS: `${LIMIT}/900`, REFRESH_LIMIT_PER_ADDRESS: `${LIMIT}/900` };
const EMAIL = 'unknown@example.org';

describe('the throttled address', () => {
  it.each([
    ['192.0.2.7', '192.0.2.7'],
    ['::ffff:192.0.2.7', '192.0.2.7'],
    ['2001:db8:0:7::1', '2001:db8:0:7::/64'],
    ['2001:0DB8:0000:0007:ffff::2', '2001:db8:0:7::/64'],
    ['2001:db8::1', '2001:db8:0:0::/64'],
    ['::1', '0:0:0:0::/64'],
    ['1:2:3:4:5:6:7:8', '1:2:3:4::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
    ['not an address', 'unknown'],
    ['', 'unknown'],
    [undefined, 'unknown'],
  ])('of %p is %s', (address, network) => {
    expect(toNetwork(address)).toBe(network);
  });

  it.each([
    ['192.0.2.7', ['192.0.2.7']],
    ['2001:db8:5:7::1', ['2001:db8:5:7::/64', '2001:db8:5::/48']],
    ['not an address', ['unknown']],
  ])('of %p is in the networks %p', (address, networks) => {
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
    const app = await TestApp.start({ variables: { ...LIMITS, TRUST_PROXY: '1' } });
    const forged = Array.from({ length: 20 }, (_, index) => `203.0.113.${index}, 198.51.100.1`);
    expect(countByStatus(await tryFrom(app, forged))).toEqual({ 401: LIMIT, 429: 20 - LIMIT });
    expect(countByStatus(await tryFrom(app, ['198.51.100.2']))).toEqual({ 401: 1 });
    expect(app.log.events('user.login.throttled')[0]).toMatchObject({ address: '198.51.100.1' });
    expect(JSON.stringify(app.log.lines)).not.toContain('203.0.113');
    await app.stop();
  });

  it('is the /64 of an IPv6 address', async () => {
    const app = await TestApp.start({ variables: { ...LIMITS, TRUST_PROXY: '1' } });
    const neighbours = Array.from({ length: 20 }, (_, index) => `2001:db8:0:7:${index}::1`);
    expect(countByStatus(await tryFrom(app, neighbours))).toEqual({ 401: LIMIT, 429: 20 - LIMIT });
    expect(countByStatus(await tryFrom(app, ['2001:db8:0:8::1']))).toEqual({ 401: 1 });
    expectThrottled(await app.login(EMAIL).set('X-Forwarded-For', '2001:db8:0:7::'));
    await app.stop();
  });

  it('is also the /48 of an IPv6 address, with 16 times the budget', async () => {
    const app = await TestApp.start({ variables: { ...LIMITS, LOGIN_LIMIT_PER_ADDRESS: '2/900', TRUST_PROXY: '1' } });
    const sites = (count: number, text: string) =>
      Array.from({ length: count }, (_, index) => `2001:db8:${text}:${(index + 1).toString(16)}::1`);
    const refreshes = (addresses: string[]) =>
      Promise.all(addresses.map((address) => app.refresh('unknown').set('X-Forwarded-For', address)));
    const accounts = (addresses: string[]) =>
      Promise.all(addresses.map((address, n) => app.login(`${n}@example.org`).set('X-Forwarded-For', address)));
    expect(countByStatus(await refreshes(sites(60, 'a')))).toEqual({ 401: 16 * LIMIT, 429: 60 - 16 * LIMIT });
    expect(countByStatus(await refreshes(sites(1, 'b')))).toEqual({ 401: 1 });
    const answers = await accounts(sites(60, 'a'));
    expect(countByStatus(answers)).toEqual({ 401: 32, 429: 28 });
    const refused = expectThrottled(answers.find(({ status }) => status === 429)!);
    expect(refused).toMatchObject({ policy: 'login-address', points: 32 });
    expect(countByStatus(await accounts(sites(1, 'b')))).toEqual({ 401: 1 });
    await app.stop();
  });
});
