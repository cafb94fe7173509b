import { randomUUID } from 'node:crypto';
import { AuditJob } from '../../../src/domain/maintenance/jobs.js';
import { Links, useMailServer, workOff } from '../../support/mail-server.js';
import { Owner, WRONG } from '../../support/owner.js';
import { useApp } from '../../support/use-app.js';
import { FactorOwner } from '../second-factors/owner.js';

const { server, variables } = useMailServer();
const app = useApp({ variables });
const links = new Links(app, server);

async function subjectsTo(email: string): Promise<string[]> {
  await workOff(app);
  return server.to(email).map(({ subject }) => subject);
}

describe('a notice by mail', () => {
  it('tells of a new password, once', async () => {
    const { user, ...alice } = await Owner.of(app);
    await new Owner(app, user, alice.tokens).changePassword().expect(204);
    expect(await subjectsTo(user.email)).toEqual(['Your password was changed']);
  });

  it('tells of each second factor that was added or removed', async () => {
    const owner = await FactorOwner.withTotp(app);
    const added = ['A second factor was added'];
    expect(await subjectsTo(owner.user.email)).toEqual(added);
    await app.admin.delete(`/users/${owner.user.id}/factors`).expect(204);
    expect(await subjectsTo(owner.user.email)).toEqual([...added, 'A second factor was removed']);
  });

  it('tells both addresses of a change, after the link is confirmed', async () => {
    const bob = await Owner.of(app);
    const email = `${randomUUID()}@example.org`;
    const token = await links.tokenOf(bob.changeEmail(email), email);
    await links.confirmEmail(token).expect(204);
    expect(await subjectsTo(email)).toEqual(['Confirm your new e-mail address', 'Your e-mail address was changed']);
    expect((await subjectsTo(bob.user.email)).at(-1)).toBe('Your e-mail address was changed');
  });
});

describe('many failed logins', () => {
  const fail = async (email: string, count: number): Promise<void> => {
    for (let i = 0; i < count; i++) await app.login(email, WRONG).expect(401);
  };
  const runJob = () => app.nest.get(AuditJob).maintainAuditLog();

  it('are told to the user by one mail a day, however long an attacker goes on', async () => {
    const carol = await app.user();
    await fail(carol.email, 19);
    await runJob();
    expect(await subjectsTo(carol.email)).toEqual([]);
    await fail(carol.email, 1);
    // Before and after the mail is sent.
    for (let i = 0; i < 2; i++) {
      await Promise.all([runJob(), runJob()]);
      await fail(carol.email, 20);
      expect(await subjectsTo(carol.email)).toEqual(['Many failed logins']);
    }
    app.clock.advance({ seconds: 23 * 3_600 });
    await fail(carol.email, 20);
    await runJob();
    expect(await subjectsTo(carol.email)).toHaveLength(1);
    app.clock.advance({ seconds: 2 * 3_600 });
    await runJob();
    expect(await subjectsTo(carol.email)).toHaveLength(2);
  });

  it('send no mail to an address without an account', async () => {
    const email = `${randomUUID()}@example.org`;
    await fail(email, 20);
    await runJob();
    expect(await subjectsTo(email)).toEqual([]);
  });

  it('are no right passwords of an account whose address is not verified', async () => {
    const erin = await app.user();
    const strict = await app.startReplica({ variables: { REQUIRE_VERIFIED_EMAIL: 'true' } });
    for (let i = 0; i < 20; i++) await strict.login(erin.email).expect(403);
    await strict.stop();
    await runJob();
    expect(await subjectsTo(erin.email)).toEqual([]);
    await fail(erin.email, 20);
    await runJob();
    expect(await subjectsTo(erin.email)).toEqual(['Many failed logins']);
  });

  it('are five when the password was right and the code wrong', async () => {
    const owner = await FactorOwner.withTotp(app);
    const answer = await app.login(owner.user.email).expect(403);
    const { challenge } = answer.body as { challenge: string };
    for (let i = 0; i < 5; i++) await owner.answers(challenge, 'totp', { code: '000000' }).expect(401);
    await runJob();
    expect(await subjectsTo(owner.user.email)).toEqual(['A second factor was added', 'Many failed logins']);
  });
});
