import { pollChanges, type Changes } from '../support/poll-changes.js';
import type { Service } from '../support/test-app.js';
import { useApp, useReplica } from '../support/use-app.js';
import { Owner } from '../support/owner.js';

describe('verifiers that poll after an owner ended sessions', () => {
  const app = useApp();
  const replica = useReplica(app);
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

  it('hear of every session that a change of the password ended, and not of the one that goes on', async () => {
    const alice = await Owner.of(app);
    const others = [await alice.elsewhere(), await alice.elsewhere()];
    const ids = await Promise.all(others.map((other) => other.sessionId()));
    const expected = ids.map((id) => ({ kind: 'session', id }));
    for (const changes of await changesOf(() => alice.changePassword().expect(204))) {
      expect(changes).toHaveLength(2);
      expect(changes).toEqual(expect.arrayContaining(expected));
    }
  });

  it('hear of a session that the owner ended, and of all others', async () => {
    const alice = await Owner.of(app);
    const [one, two] = [await alice.elsewhere(), await alice.elsewhere()];
    const [first, second] = [await one.sessionId(), await two.sessionId()];
    for (const changes of await changesOf(() => alice.end(first).expect(204)))
      expect(changes).toEqual([{ kind: 'session', id: first }]);
    for (const changes of await changesOf(() => alice.endOthers().expect(204)))
      expect(changes).toEqual([{ kind: 'session', id: second }]);
  });

  it('hear of a deleted account', async () => {
    const alice = await Owner.of(app);
    for (const changes of await changesOf(() => alice.deleteAccount().expect(204)))
      expect(changes).toContainEqual({ kind: 'user', id: alice.user.id });
  });
});
