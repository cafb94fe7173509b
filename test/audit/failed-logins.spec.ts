import { randomUUID } from 'node:crypto';
import { AuditJob } from '../../src/maintenance/maintenance.js';
import { useApp, useReplica } from '../support/use-app.js';
import { recorded } from './record.js';

const FAILED = { event: 'user.login.failed' };

describe('failed logins', () => {
  const app = useApp();
  const { clock } = app;
  const replica = useReplica(app);

  const keep = () => Promise.all([app, replica].map(({ nest }) => nest.get(AuditJob).maintainAuditLog()));

  it('are one row for each account and window, with the exact count over all replicas', async () => {
    clock.enterNextWindow();
    const [alice, bob] = [await app.user(), await app.user()];
    const guesses = Array.from({ length: 40 }, (_, index) => (index % 2 ? app : replica));
    await Promise.all(guesses.map((each) => each.login(alice.email.toUpperCase(), 'wrong password').expect(401)));
    await app.admin.patch(`/users/${alice.id}`, { is_active: false }).expect(200);
    await app.login(alice.email).expect(401);
    await app.login(bob.email, 'wrong password').expect(401);

    const open = await recorded(app, { ...FAILED, subject: alice.id });
    expect(open).toMatchObject([{ count: 41, details: { reasons: { wrong_password: 40, disabled: 1 } } }]);
    expect(await recorded(replica, { ...FAILED, subject: bob.id })).toMatchObject([{ count: 1 }]);

    clock.advance({ minutes: 15 });
    await keep();
    await app.login(alice.email).expect(401);
    clock.advance({ minutes: 2 });
    await Promise.all([keep(), keep()]);
    const both = await recorded(app, { ...FAILED, subject: alice.id });
    expect(both.map(({ count }) => count)).toEqual([1, 41]);
    expect(both[1]).toEqual(open[0]);
    expect(await app.database.query('SELECT count FROM failed_logins')).toEqual([{ count: 1 }]);
  });

  it('of an unknown e-mail address are counted the same way, without recording the address', async () => {
    clock.enterNextWindow();
    const [email, another] = [`${randomUUID()}@example.org`, `${randomUUID()}@example.org`];
    for (const each of [email, email, another]) await app.login(each).expect(401);
    const counts = (await recorded(app, FAILED)).slice(0, 2);
    expect(counts).toMatchObject([{ count: 1 }, { count: 2, details: { reasons: { unknown: 2 } } }]);
    expect(counts[1]!.subject).toMatch(/^unknown:[0-9a-f]{32}$/);
    expect(await recorded(app, { subject: counts[1]!.subject! })).toEqual([counts[1]]);
    expect(JSON.stringify(await app.database.query('SELECT * FROM failed_logins'))).not.toContain('@');
  });
});
