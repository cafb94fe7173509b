import { randomUUID } from 'node:crypto';
import type { Response, Test as SupertestRequest } from 'supertest';
import { problems } from '../../../src/foundation/problems/problems.js';
import { recorded } from '../../domain/audit/record.js';
import { atOnce, repeatRace } from '../../support/at-once.js';
import { expectEnded, expectInvalid, expectProblem } from '../../support/expect-problem.js';
import { useApp, useReplica } from '../../support/use-app.js';
import { NEW_PASSWORD, Owner, type OwnSession } from '../../support/owner.js';
import { type Changes, pollChanges } from '../../support/poll-changes.js';
import type { Service, Tokens, User } from '../../support/test-app.js';
import { holdRow } from '../../support/row-lock.js';
import { PASSWORD, UNLEASED } from '../../support/settings.js';

const app = useApp();
const replica = useReplica(app);

const HOME = '2001:db8:1:2:3::7';
const BROWSER = 'Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0';

describe('GET /api/v0/users/me/sessions', () => {
  const app = useApp({ variables: { ...UNLEASED, TRUST_PROXY: 'true' } });

  const loginAs = async (email: string, headers: Record<string, string>): Promise<OwnSession[]> => {
    const { body } = await app.login(email).set(headers).expect(200);
    const { access_token } = body as { access_token: string };
    const answer = await app.get('/api/v0/users/me/sessions').set('Authorization', `Bearer ${access_token}`);
    return (answer.body as { items: OwnSession[] }).items;
  };

  it('shows each live session of the user, the oldest login first, and which is this one', async () => {
    const alice = await Owner.of(app);
    await Owner.of(app);
    const [second, third] = [await alice.elsewhere(), await alice.elsewhere()];
    await app.logout(third.tokens.refresh_token).expect(204);
    const seen = await second.sessions();
    expect(seen.map(({ is_current }) => is_current)).toEqual([false, true]);
    expect(seen[0]!.id).toBe(await alice.sessionId());
    expect(JSON.stringify(seen)).not.toMatch(/digest|token|pa_rt_|generation/);
  });

  it('shows, to operators too, from which network and user agent it was begun, and when and from where it was last used', async () => {
    const alice = await app.user();
    const { body } = await app.login(alice.email).set({ 'X-Forwarded-For': HOME, 'User-Agent': BROWSER }).expect(200);
    app.clock.advance({ minutes: 5 });
    const { refresh_token } = body as { refresh_token: string };
    await app.refresh(refresh_token).set('X-Forwarded-For', '192.0.2.9').expect(200);
    const [first] = await loginAs(alice.email, {});
    expect(first).toMatchObject({
      created_from: '2001:db8:1:2::/64',
      user_agent: BROWSER,
      last_used_from: '192.0.2.9',
    });
    const usedAfter = new Date(first!.last_used_at).getTime() - new Date(first!.created_at).getTime();
    expect(usedAfter).toBeGreaterThanOrEqual(5 * 60_000);
    const shown = (await app.admin.get(`/users/${alice.id}/sessions`).expect(200)).body as { items: object[] };
    expect(shown.items[0]).toMatchObject({
      created_from: '2001:db8:1:2::/64',
      user_agent: BROWSER,
      rotated_from: '192.0.2.9',
    });
  });

  it('keeps 200 printable ASCII characters of the user agent', async () => {
    const { email } = await app.user();
    const agents = ['x'.repeat(300), 'caf\u00e9\u00ad\u0085 1.0', '\u00ff', `  ${BROWSER}\t`];
    const shown: (string | null)[] = [];
    for (const agent of agents) shown.push((await loginAs(email, { 'User-Agent': agent })).at(-1)!.user_agent);
    expect(shown).toEqual(['x'.repeat(200), 'caf 1.0', null, BROWSER]);
  });

  it('shows a session of a version that recorded neither', async () => {
    const alice = await Owner.of(app);
    await app.database.query('UPDATE sessions SET created_from = NULL, user_agent = NULL WHERE user_id = $1', [
      alice.user.id,
    ]);
    expect(await alice.sessions()).toMatchObject([{ created_from: null, user_agent: null, last_used_from: null }]);
  });

  it('leaves out sessions that have expired', async () => {
    const alice = await Owner.of(app);
    app.clock.advance({ days: 15 });
    expect(await (await alice.elsewhere()).sessions()).toMatchObject([{ is_current: true }]);
  });

  it('comes in cursor pages', async () => {
    const alice = await Owner.of(app);
    for (let index = 0; index < 4; index += 1) await alice.elsewhere();
    const ids: string[] = [];
    let query = '?limit=2';
    for (let pages = 0; pages < 3; pages += 1) {
      const { body } = await alice.as(app.get(`/api/v0/users/me/sessions${query}`)).expect(200);
      const { items, next_cursor } = body as { items: OwnSession[]; next_cursor: string | null };
      ids.push(...items.map(({ id }) => id));
      query = `?limit=2&cursor=${next_cursor}`;
      expect(next_cursor === null).toBe(pages === 2);
    }
    expect(ids).toEqual((await alice.sessions()).map(({ id }) => id));
    expect(new Set(ids).size).toBe(5);
    expectInvalid(await alice.as(app.get('/api/v0/users/me/sessions?cursor=x')), '/cursor');
  });
});

describe('DELETE /api/v0/users/me/sessions/{id}', () => {
  it('ends that session on every replica, and no other', async () => {
    const alice = await Owner.of(app);
    const [gone, kept] = [await alice.elsewhere(), await alice.elsewhere()];
    await alice.end(await gone.sessionId()).expect(204);
    expect([await gone.isLive(), await gone.isLive(replica)]).toEqual([false, false]);
    expect([await alice.isLive(replica), await kept.isLive()]).toEqual([true, true]);
    await app.login(alice.user.email).expect(200);
  });

  it('is idempotent, and recorded once when 20 calls race', async () => {
    const alice = await Owner.of(app);
    const id = await (await alice.elsewhere()).sessionId();
    await atOnce(20, (index) => alice.end(id, index % 2 ? app : replica).expect(204));
    await alice.end(id.toUpperCase()).expect(204);
    expect(await recorded(app, { subject: alice.user.id, event: 'session.ended' })).toMatchObject([
      { actor: { door: 'user', id: alice.user.id }, details: { session_id: id, reason: 'owner' } },
    ]);
  });

  it('ends the session of the request too', async () => {
    const alice = await Owner.of(app);
    await alice.end(await alice.sessionId()).expect(204);
    expect(await alice.isLive()).toBe(false);
  });

  it('answers the same 404 for a session of another user, an unknown id and text that is not an id', async () => {
    const [alice, bob] = [await Owner.of(app), await Owner.of(app)];
    for (const id of [await bob.sessionId(), randomUUID(), 'x']) expectProblem(await alice.end(id), problems.notFound);
    expect(await bob.isLive()).toBe(true);
  });
});

describe('DELETE /api/v0/users/me/sessions', () => {
  it('ends all sessions of the user but this one', async () => {
    const [alice, bob] = [await Owner.of(app), await Owner.of(app)];
    const others = [await alice.elsewhere(), await alice.elsewhere()];
    await alice.endOthers().expect(204);
    for (const other of others) expect(await other.isLive(replica)).toBe(false);
    expect([await alice.isLive(replica), await bob.isLive()]).toEqual([true, true]);
    expect(await alice.sessions()).toHaveLength(1);
  });

  it('is recorded once with the number of sessions, and not at all without another session', async () => {
    const alice = await Owner.of(app);
    await alice.elsewhere();
    await alice.elsewhere();
    await atOnce(10, () => alice.endOthers().expect(204));
    expect(await recorded(app, { subject: alice.user.id, event: 'session.ended' })).toMatchObject([
      { actor: { door: 'user', id: alice.user.id }, count: 2, details: { reason: 'owner' } },
    ]);
  });
});

describe('verifiers that poll after an owner ended sessions', () => {
  let service: Service;

  beforeAll(async () => {
    service = await app.service('recipes', 'auth');
  });

  /** What each replica names as soon as the act has answered. */
  const changesOf = async (act: () => PromiseLike<unknown>): Promise<Changes['changes'][]> => {
    const { cursor } = await pollChanges(app, service);
    await act();
    const answers = [await pollChanges(app, service, cursor), await pollChanges(replica, service, cursor)];
    return answers.map(({ changes }) => changes);
  };

  it('hear of every session that ended, and not of the one that goes on, and of a deleted account', async () => {
    const alice = await Owner.of(app);
    const begin = async () => ({ kind: 'session', id: await (await alice.elsewhere()).sessionId() });
    const [one, two] = [await begin(), await begin()];
    for (const changes of await changesOf(() => alice.end(one.id).expect(204))) expect(changes).toEqual([one]);
    for (const changes of await changesOf(() => alice.endOthers().expect(204))) expect(changes).toEqual([two]);
    const both = [await begin(), await begin()];
    for (const changes of await changesOf(() => alice.changePassword().expect(204))) {
      expect(changes).toHaveLength(2);
      expect(changes).toEqual(expect.arrayContaining(both));
    }
    for (const changes of await changesOf(() => alice.deleteAccount(NEW_PASSWORD).expect(204)))
      expect(changes).toContainEqual({ kind: 'user', id: alice.user.id });
  });
});

describe('a change of the password that races', () => {
  /** Expects that every token that a racing response issued is refused. */
  const expectDead = async (...answers: Response[]): Promise<void> => {
    for (const { status, body } of answers) {
      expect([200, 401]).toContain(status);
      if (status !== 200) continue;
      await expectEnded(body as Tokens, app, replica);
    }
  };

  it('with logins and refreshes leaves no session of the old password behind its answer', async () => {
    await repeatRace(async () => {
      const alice = await Owner.of(app);
      const elsewhere = await alice.elsewhere();
      const [changed, ...raced] = await Promise.all([
        alice.changePassword(),
        replica.login(alice.user.email),
        app.login(alice.user.email),
        replica.refresh(elsewhere.tokens.refresh_token),
      ]);
      expect(changed.status).toBe(204);
      await expectDead(...raced);
      expect(await alice.sessions()).toHaveLength(1);
    });
  });

  /** Makes two calls, of which the first one is the first to wait for the row of the user. */
  const inOrder = async (
    { id }: User,
    first: SupertestRequest,
    second: SupertestRequest,
  ): Promise<[Response, Response]> => {
    const row = await holdRow(app.database, 'users', id);
    const one = first.then((answer) => answer);
    await row.waiting(1);
    const two = second.then((answer) => answer);
    await row.waiting(2);
    await row.release();
    return [await one, await two];
  };

  it.each([
    ['with', (alice: Owner) => alice.changePassword()],
    [
      'of an address by an operator, with',
      ({ user }: Owner) => app.admin.patch(`/users/${user.id}`, { email: `new-${user.email}` }),
    ],
  ])('%s a login that verified the password refuses that login', async (_name, change) => {
    const alice = await Owner.of(app);
    const [changed, login] = await inOrder(alice.user, change(alice), replica.login(alice.user.email));
    expect(changed.ok).toBe(true);
    expectProblem(login, problems.invalidCredentials);
    expect(replica.log.events('user.login.failed').at(-1)).toMatchObject({ reason: 'changed_meanwhile' });
  });

  it('with a login that begins its session first ends that session', async () => {
    const alice = await Owner.of(app);
    const [login, changed] = await inOrder(alice.user, replica.login(alice.user.email), alice.changePassword());
    expect([login.status, changed.status]).toEqual([200, 204]);
    await expectDead(login);
  });

  it('with 19 others succeeds once, and the one that succeeded has set the password', async () => {
    const alice = await Owner.of(app);
    const next = (index: number): string => `${NEW_PASSWORD} ${index}`;
    const answers = await atOnce(20, (index) => alice.changePassword(PASSWORD, next(index), index % 2 ? app : replica));
    const winners = answers.flatMap(({ status }, index) => (status === 204 ? [index] : []));
    expect(winners).toHaveLength(1);
    for (const answer of answers) if (answer.status !== 204) expectProblem(answer, problems.wrongPassword);
    await app.login(alice.user.email, next(winners[0]!)).expect(200);
    expectProblem(await app.login(alice.user.email, next((winners[0]! + 1) % 20)), problems.invalidCredentials);
    expect(await recorded(app, { subject: alice.user.id, event: 'user.password.changed' })).toHaveLength(1);
  });

  it('from two sessions leaves the one alive whose call succeeded', async () => {
    await repeatRace(async () => {
      const one = await Owner.of(app);
      const two = await one.elsewhere();
      const answers = await Promise.all([
        one.changePassword(PASSWORD, `${NEW_PASSWORD} 1`),
        two.changePassword(PASSWORD, `${NEW_PASSWORD} 2`, replica),
      ]);
      const succeeded = answers.map(({ status }) => status === 204);
      expect(succeeded.filter(Boolean)).toHaveLength(1);
      expect([await one.isLive(), await two.isLive()]).toEqual(succeeded);
    });
  });

  it('with an operator who disables the user leaves no session', async () => {
    await repeatRace(async () => {
      const alice = await Owner.of(app);
      await Promise.all([
        alice.changePassword(PASSWORD, NEW_PASSWORD, replica),
        app.admin.patch(`/users/${alice.user.id}`, { is_active: false }).expect(200),
      ]);
      expect(await alice.isLive()).toBe(false);
    });
  });
});
