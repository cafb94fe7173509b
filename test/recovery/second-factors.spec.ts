import { randomUUID } from 'node:crypto';
import { problems } from '../../src/problems/problems.js';
import { recorded } from '../audit/record.js';
import { FactorOwner, logInWithPasskey, passkeyOptions } from '../second-factors/owner.js';
import { expectProblem } from '../support/expect-problem.js';
import { receiveToken, useMailServer } from '../support/mail-server.js';
import { PASSWORD } from '../support/settings.js';
import { TestClock } from '../support/test-clock.js';
import { useApp } from '../support/use-app.js';

const THIEFS_PASSWORD = 'another perfectly fine passphrase';
const newAddress = (): string => `${randomUUID()}@example.org`;

describe('second factors of an account whose address was never proven', () => {
  const { server, variables } = useMailServer();
  const app = useApp({ variables });

  const requestChange = async (owner: FactorOwner, email: string): Promise<string> => {
    await owner.post('/email', { password: PASSWORD, new_email: email }).expect(202);
    return receiveToken(app, server, email);
  };
  const confirm = (token: string) => app.post('/api/v0/auth/email-verification/confirm', { token }).expect(204);
  const resetByMail = async (email: string, new_password = THIEFS_PASSWORD): Promise<void> => {
    const count = server.to(email).length + 1;
    await app.post('/api/v0/auth/password-reset', { email }).expect(202);
    const token = await receiveToken(app, server, email, count);
    await app.post('/api/v0/auth/password-reset/confirm', { token, new_password }).expect(204);
  };

  it('stay when the address is changed with the password alone, and the password reset at the new one', async () => {
    const owner = await FactorOwner.of(app);
    await owner.enrols();
    const authenticator = await owner.registers();
    const thiefs = newAddress();
    await confirm(await requestChange(owner, thiefs));
    for (const password of [THIEFS_PASSWORD, `${THIEFS_PASSWORD} 2`]) {
      await resetByMail(thiefs, password);
      const answer = await app.login(thiefs, password);
      expectProblem(answer, problems.secondFactorRequired);
      expect(answer.body).toMatchObject({ methods: ['totp', 'recovery_code', 'passkey'] });
    }
    await logInWithPasskey(app, authenticator.get(await passkeyOptions(app))).expect(200);
    const resets = await recorded(app, { event: 'user.password.reset', subject: owner.user.id });
    expect(resets.map(({ details }) => details)).toMatchObject([
      { removed_factors: { totp: 0, passkeys: 0 } },
      { removed_factors: { totp: 0, passkeys: 0 } },
    ]);
  });

  it('stay when the change was requested before they were added, and confirmed afterwards', async () => {
    const owner = await FactorOwner.of(app);
    const thiefs = newAddress();
    const token = await requestChange(owner, thiefs);
    await owner.registers();
    await confirm(token);
    await resetByMail(thiefs);
    expectProblem(await app.login(thiefs, THIEFS_PASSWORD), problems.secondFactorRequired);
  });

  it('are removed by a reset when a change to the address that the account has already proved it', async () => {
    const stranger = await FactorOwner.of(app);
    await stranger.registers();
    const { email } = stranger.user;
    await confirm(await requestChange(stranger, email));
    await resetByMail(email);
    await app.login(email, THIEFS_PASSWORD).expect(200);
  });

  it.each([
    ['an app', (owner: FactorOwner) => owner.enrols()],
    ['a passkey', (owner: FactorOwner) => owner.registers()],
  ])('stay when %s is added after a proof that a replica whose clock is ahead has dated', async (_what, add) => {
    const replica = await app.startReplica({ clock: new TestClock() });
    replica.clock.drift({ days: 500 });
    const owner = await FactorOwner.of(app);
    const { email } = owner.user;
    await app.post('/api/v0/auth/email-verification', { email }).expect(202);
    const token = await receiveToken(app, server, email);
    await replica.post('/api/v0/auth/email-verification/confirm', { token }).expect(204);
    await replica.stop();
    await add(owner);
    await resetByMail(email);
    expectProblem(await app.login(email, THIEFS_PASSWORD), problems.secondFactorRequired);
  });

  it('do not keep the new address from counting as verified', async () => {
    const owner = await FactorOwner.of(app);
    const authenticator = await owner.registers();
    await confirm(await requestChange(owner, newAddress()));
    const strict = await app.startReplica({
      variables: Object.defineProperties(
        { REQUIRE_VERIFIED_EMAIL: 'true' },
        Object.getOwnPropertyDescriptors(variables),
      ),
    });
    await logInWithPasskey(strict, authenticator.get(await passkeyOptions(strict))).expect(200);
    await strict.stop();
  });
});
