import { randomUUID } from 'node:crypto';
import { problems } from '../../src/problems/problems.js';
import { recorded } from '../audit/record.js';
import { expectProblem } from '../support/expect-problem.js';
import { useApp } from '../support/use-app.js';
import { FactorOwner } from './owner.js';

describe('DELETE /api/v0/admin/users/{id}/factors', () => {
  const app = useApp();

  it('removes all factors of a user who has lost them, and ends the sessions', async () => {
    const owner = await FactorOwner.withTotp(app);
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
