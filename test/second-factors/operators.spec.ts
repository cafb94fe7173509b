import { randomUUID } from 'node:crypto';
import { problems } from '../../src/problems/problems.js';
import { recorded } from '../audit/record.js';
import { expectProblem } from '../support/expect-problem.js';
import { useApp } from '../support/use-app.js';
import { Owner } from './owner.js';

describe('DELETE /api/v0/admin/users/{id}/factors', () => {
  const app = useApp();

  it('removes all factors of a user who has lost them, and ends the sessions', async () => {
    const owner = await Owner.withTotp(app);
    await owner.registers();
    const { challenge } = await owner.isChallenged();
    const { headers } = await app.admin.delete(`/users/${owner.user.id}/factors`).expect(204);
    expectProblem(await app.me(owner.tokens.access_token), problems.invalidAccessToken);
    await app.login(owner.user.email).expect(200);
    expectProblem(await owner.answers(challenge, 'totp', { code: owner.code() }), problems.invalidSecondFactor);
    const rows = (await recorded(app)).filter((row) => row.request_id === headers['x-request-id']);
    expect(rows).toMatchObject([
      {
        event: 'admin.user.factors_removed',
        actor: { door: 'admin' },
        subject: owner.user.id,
        details: { before: { totp: true, passkeys: 1 }, ended_sessions: 1 },
      },
    ]);
  });

  it('is idempotent, and 404 for an unknown user', async () => {
    const user = await app.user();
    await app.admin.delete(`/users/${user.id}/factors`).expect(204);
    expect(await recorded(app, { event: 'admin.user.factors_removed', subject: user.id })).toEqual([]);
    expectProblem(await app.admin.delete(`/users/${randomUUID()}/factors`), problems.notFound);
    expectProblem(await app.admin.delete('/users/x/factors'), problems.notFound);
  });
});

describe('the audit log', () => {
  const app = useApp();

  it('has one row for each change of the factors of a user, without their secrets', async () => {
    const owner = await Owner.withTotp(app);
    await owner.registers();
    const { items } = (await owner.get('/passkeys')).body as { items: { id: string }[] };
    const id = items[0]!.id;
    const bearer = { Authorization: `Bearer ${owner.tokens.access_token}` };
    await app.patch(`/api/v0/users/me/passkeys/${id}`, { name: 'old phone' }).set(bearer).expect(200);
    await owner.post(`/passkeys/${id}/remove`, { password: owner.user.password }).expect(204);
    const proof = { password: owner.user.password, code: owner.recoveryCodes[0] };
    await owner.post('/recovery-codes', proof).expect(200);
    await owner.post('/totp/remove', { password: owner.user.password, code: owner.code() }).expect(204);
    const rows = await recorded(app, { subject: owner.user.id });
    const acts = rows.filter(({ event }) => /totp|passkey|recovery/.test(event));
    expect(acts.map(({ event }) => event).reverse()).toEqual([
      'user.totp.enrolled',
      'user.passkey.added',
      'user.passkey.renamed',
      'user.passkey.removed',
      'user.recovery_code.used',
      'user.recovery_codes.replaced',
      'user.totp.removed',
    ]);
    for (const { actor } of acts) expect(actor).toEqual({ door: 'user', id: owner.user.id });
    const text = JSON.stringify(rows) + JSON.stringify(app.log.lines);
    for (const secret of [owner.secret, ...owner.recoveryCodes]) expect(text).not.toContain(secret);
  });
});
