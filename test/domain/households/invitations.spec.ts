import { PurgeJob } from '../../../src/domain/maintenance/jobs.js';
import { problems } from '../../../src/foundation/problems/problems.js';
import { expectProblem } from '../../support/expect-problem.js';
import { accept, Home } from '../../support/home.js';
import { Owner } from '../../support/owner.js';
import { countByStatus, expectThrottled } from '../../support/throttled.js';
import { useApp } from '../../support/use-app.js';

interface Invitation {
  readonly id: string;
  readonly code: string;
  readonly expires_at: string;
}

const NO_LIMIT = { variables: { TRUST_PROXY: '1', HOUSEHOLD_NODE_TARGETS: 'lights,heating' } };

describe('an invitation', () => {
  const app = useApp(NO_LIMIT);
  const { clock } = app;

  const invite = async (home: Home, by = home.admin, body?: object): Promise<Invitation> =>
    (await home.invite(by, body).expect(201)).body as Invitation;

  it('makes one person a member, who may repeat the call while they are one', async () => {
    const [home, guest, other] = [await Home.of(app), await Owner.of(app), await Owner.of(app)];
    const { code } = await invite(home);
    expect(code).toMatch(/^[0-9A-HJKMNP-TV-Z]{24}$/);
    const joined = await accept(app, guest, code.toLowerCase()).expect(200);
    expect(joined.body).toMatchObject({ id: home.id, role: 'member' });
    expect(await home.roleOf(guest)).toBe('member');
    expect((await accept(app, guest, code).expect(200)).body).toEqual(joined.body);
    expectProblem(await accept(app, other, code), problems.notFound);
    await home.remove(home.admin, guest).expect(204);
    expectProblem(await accept(app, guest, code), problems.notFound);
  });

  it('is used once by many at the same time, and once by one who calls many times', async () => {
    const [home, people] = [await Home.of(app), await Promise.all(Array.from({ length: 5 }, () => Owner.of(app)))];
    const { code } = await invite(home);
    expect(countByStatus(await Promise.all(people.map((who) => accept(app, who, code))))).toEqual({ 200: 1, 404: 4 });
    const [guest, second] = [await Owner.of(app), await invite(home)];
    const answers = await Promise.all(Array.from({ length: 5 }, () => accept(app, guest, second.code)));
    expect(countByStatus(answers)).toEqual({ 200: 5 });
  });

  it('stays open when a member presents it', async () => {
    const home = await Home.of(app);
    const { code } = await invite(home);
    expectProblem(await accept(app, home.admin, code), problems.alreadyMember);
    await accept(app, await Owner.of(app), code).expect(200);
  });

  it('lasts 72 hours unless its issuer says otherwise, and is found until 30 days after its end', async () => {
    const home = await Home.of(app);
    const [short, long] = [await invite(home), await invite(home, home.admin, { expires_in_hours: 100 })];
    const guest = await Owner.of(app);
    clock.advance({ minutes: 72 * 60 });
    const session = await Owner.in(app, guest.user);
    expectProblem(await accept(app, session, short.code), problems.notFound);
    await accept(app, session, long.code).expect(200);
    const admin = await Owner.in(app, home.admin.user);
    const { body } = await home.get(admin, '/invitations').expect(200);
    expect((body as { items: object[] }).items).toMatchObject([
      { id: short.id, state: 'expired', used_by: null },
      { id: long.id, state: 'used', used_by: guest.user.id },
    ]);
    clock.advance({ days: 35 });
    await app.nest.get(PurgeJob).purgeExpired();
    const later = await Owner.in(app, home.admin.user);
    expect(((await home.get(later, '/invitations').expect(200)).body as { items: object[] }).items).toEqual([]);
  });

  it('is cancelled by an admin, once and again, unless it was used', async () => {
    const [home, guest] = [await Home.of(app), await Owner.of(app)];
    const [one, other] = [await invite(home), await invite(home)];
    await home.cancel(home.admin, one.id).expect(204);
    await home.cancel(home.admin, one.id).expect(204);
    expectProblem(await accept(app, guest, one.code), problems.notFound);
    await accept(app, guest, other.code).expect(200);
    expectProblem(await home.cancel(home.admin, other.id), problems.invitationUsed);
    const foreign = await Home.of(app);
    expectProblem(await foreign.cancel(foreign.admin, other.id), problems.notFound);
  });

  it.each([
    ['removed', (home: Home, who: Owner) => home.remove(home.admin, who).expect(204)],
    ['demoted', (home: Home, who: Owner) => home.setRole(home.admin, who, 'member').expect(200)],
    ['gone', (home: Home, who: Owner) => home.leave(who).expect(204)],
    ['disabled', (_: Home, { user }: Owner) => app.admin.patch(`/users/${user.id}`, { is_active: false }).expect(200)],
    ['deleted', (_: Home, who: Owner) => who.deleteAccount().expect(204)],
  ])('ends, as enrolments do, when its issuer is %s, also when the issuer is admin again', async (_what, act) => {
    const home = await Home.of(app);
    const issuer = await home.secondAdmin();
    const { code } = await invite(home, issuer);
    const kept = await invite(home);
    const { body: enrolment } = await home.enrolment(issuer).expect(201);
    await act(home, issuer);
    const open = await app.database.query(
      `SELECT issued_by FROM household_invitations WHERE household_id = $1 AND cancelled_at IS NULL AND used_at IS NULL
       UNION ALL SELECT issued_by FROM node_enrolments WHERE household_id = $1 AND cancelled_at IS NULL`,
      [home.id],
    );
    expect(open).toEqual([{ issued_by: home.admin.user.id }]);
    await app.database.query(`UPDATE users SET is_active = true WHERE id = $1`, [issuer.user.id]);
    expectProblem(await accept(app, await Owner.of(app), code), problems.notFound);
    const device = app.post('/api/v0/nodes/enrol', { code: (enrolment as { code: string }).code });
    expectProblem(await device, problems.notFound);
    await accept(app, await Owner.of(app), kept.code).expect(200);
  });

  it('ends, as enrolments do, when its issuer is no longer an admin and no replica has cancelled it', async () => {
    const home = await Home.of(app);
    const issuer = await home.secondAdmin();
    const { code } = await invite(home, issuer);
    const { body: enrolment } = await home.enrolment(issuer).expect(201);
    await app.database.query(`UPDATE household_members SET role = 'member' WHERE user_id = $1`, [issuer.user.id]);
    expectProblem(await accept(app, await Owner.of(app), code), problems.notFound);
    const device = app.post('/api/v0/nodes/enrol', { code: (enrolment as { code: string }).code });
    expectProblem(await device, problems.notFound);
  });

  it('is used or cancelled, and never both, when its issuer is removed at the same time', async () => {
    for (let round = 0; round < 5; round += 1) {
      const [home, guest] = [await Home.of(app), await Owner.of(app)];
      const issuer = await home.secondAdmin();
      const { code } = await invite(home, issuer);
      const [{ status }] = await Promise.all([accept(app, guest, code), home.remove(home.admin, issuer).expect(204)]);
      expect(await home.roleOf(guest)).toBe(status === 200 ? 'member' : undefined);
    }
  });

  it('is one of 20 open ones at most, also when they are issued at the same time', async () => {
    const home = await Home.of(app);
    const answers = await Promise.all(Array.from({ length: 25 }, () => home.invite()));
    expect(countByStatus(answers)).toEqual({ 201: 20, 409: 5 });
    expectProblem(
      answers.find(({ status }) => status === 409)!,
      problems.householdFull,
    );
  });

  it('brings no more than 100 members, also when they accept at the same time', async () => {
    const home = await Home.of(app);
    await app.database.query(
      `WITH made AS (INSERT INTO users (id, email, password_hash, is_active, created_at, updated_at)
         SELECT gen_random_uuid(), 'many-' || n || '@example.org', '!', true, now(), now() FROM generate_series(1, 97) AS n
         RETURNING id)
       INSERT INTO household_members SELECT $1, id, 'member', now() FROM made`,
      [home.id],
    );
    const guests = await Promise.all(Array.from({ length: 4 }, () => Owner.of(app)));
    const codes = await Promise.all(guests.map(() => home.code()));
    const answers = await Promise.all(guests.map((guest, index) => accept(app, guest, codes[index]!)));
    expect(countByStatus(answers)).toEqual({ 200: 2, 409: 2 });
    expectProblem(
      answers.find(({ status }) => status === 409)!,
      problems.householdFull,
    );
  });

  it('is guessed ten times an hour by one user and by one network, apart from the enrolment of devices', async () => {
    const [guesser, home] = [await Owner.of(app), await Home.of(app)];
    const guess = (owner: Owner, address: string, code = 'x') => accept(app, owner, code, address);
    const answers = await Promise.all(Array.from({ length: 13 }, (_, n) => guess(guesser, `192.0.2.${n}`)));
    expect(countByStatus(answers)).toEqual({ 404: 10, 429: 3 });
    const { code } = await invite(home);
    expect((await guess(guesser, '198.51.100.1', code)).status).toBe(429);
    const people = await Promise.all(Array.from({ length: 12 }, () => Owner.of(app)));
    const ofOne = await Promise.all(people.map((owner) => guess(owner, '203.0.113.7')));
    expect(countByStatus(ofOne)).toEqual({ 404: 10, 429: 2 });
    const device = app.post('/api/v0/nodes/enrol', { code: 'x' }).set('X-Forwarded-For', '203.0.113.7');
    expectProblem(await device, problems.notFound);
    await guess(await Owner.of(app), '203.0.113.8', code).expect(200);
  });

  it('is presented again by a guesser whose throttles an operator has removed', async () => {
    const [guesser, home] = [await Owner.of(app), await Home.of(app)];
    for (let n = 0; n < 10; n += 1) expectProblem(await accept(app, guesser, `UNKNOWN${n}`), problems.notFound);
    const { code } = await invite(home);
    expect(expectThrottled(await accept(app, guesser, code)).policy).toBe('invitation-account');
    await app.admin.delete(`/users/${guesser.user.id}/throttles`).expect(204);
    await accept(app, guesser, code).expect(200);
  });
});

describe('the devices of a household', () => {
  const app = useApp(NO_LIMIT);

  const enrol = (code: string) => app.post('/api/v0/nodes/enrol', { code });

  it('are brought in by an admin, and accepted at the services of HOUSEHOLD_NODE_TARGETS alone', async () => {
    const home = await Home.of(app);
    const { body } = await home.enrolment().expect(201);
    expect(body).toMatchObject({ household_id: home.id, targets: ['lights', 'heating'] });
    const { body: enrolled } = await enrol((body as { code: string }).code).expect(201);
    const { node_id, api_key } = enrolled as { node_id: string; api_key: string };
    const at = (target: string) => app.validateNode(`${node_id}:${api_key}`).set('X-Platform-Target', target);
    await at('lights').expect(200);
    expectProblem(await at('recipes'), problems.invalidNodeCredentials);
    const member = await home.member();
    const { body: nodes } = await home.get(member, '/nodes').expect(200);
    expect((nodes as { items: object[] }).items).toMatchObject([{ node_id, room: 'hall', name: 'lamp' }]);
    await home.revokeNode(home.admin, node_id).expect(204);
    expectProblem(await at('lights'), problems.invalidNodeCredentials);
    await home.revokeNode(home.admin, node_id).expect(204);
    expect(((await home.get(member, '/nodes').expect(200)).body as { items: object[] }).items).toEqual([]);
  });

  it('are enrolled by operators alone where HOUSEHOLD_NODE_TARGETS is not set', async () => {
    const strict = await app.startReplica({ variables: { HOUSEHOLD_NODE_TARGETS: undefined } });
    const home = await Home.of(strict);
    expectProblem(await home.enrolment(), problems.enrolmentByOperatorsOnly);
    await strict.stop();
  });

  it('are stopped in their own household only', async () => {
    const [home, other] = [await Home.of(app), await Home.of(app)];
    const { nodeId } = await app.node(other.id);
    for (const id of [nodeId, 'x']) expectProblem(await home.revokeNode(home.admin, id), problems.notFound);
  });

  it('are 50 at most, open codes included, also when codes are issued at the same time; operators have no limit', async () => {
    const home = await Home.of(app);
    for (let made = 0; made < 47; made += 1) await app.node(home.id);
    const answers = await Promise.all(Array.from({ length: 6 }, () => home.enrolment()));
    expect(countByStatus(answers)).toEqual({ 201: 3, 409: 3 });
    expectProblem(
      answers.find(({ status }) => status === 409)!,
      problems.householdFull,
    );
    const { code } = answers.find(({ status }) => status === 201)!.body as { code: string };
    const { body } = await enrol(code).expect(201);
    expectProblem(await home.enrolment(), problems.householdFull);
    await app.node(home.id);
    await home.revokeNode(home.admin, (body as { node_id: string }).node_id).expect(204);
    expectProblem(await home.enrolment(), problems.householdFull);
  });

  it('race the deletion of their household without a deadlock', async () => {
    for (let round = 0; round < 5; round += 1) {
      const home = await Home.of(app);
      const codes = [await home.enrolment().expect(201), await home.enrolment().expect(201)];
      const devices = codes.map(({ body }) => enrol((body as { code: string }).code));
      const [deletion, ...enrolled] = await Promise.all([home.deleteBy(home.admin), ...devices]);
      const made = enrolled.filter(({ status }) => status === 201).length;
      expect(enrolled.every(({ status }) => status === 201 || status === 404)).toBe(true);
      expect(deletion.status).toBe(made > 0 ? 409 : 204);
    }
  });
});
