import { randomUUID } from 'node:crypto';
import { Owner } from '../../support/owner.js';
import { openTransaction } from '../../support/row-lock.js';
import { UNLEASED } from '../../support/settings.js';
import { useApp } from '../../support/use-app.js';

const app = useApp({ variables: UNLEASED });

describe('memberships in the answer about a user', () => {
  let service: Record<string, string>;

  beforeAll(async () => {
    ({ headers: service } = await app.service(undefined, 'auth'));
  });

  const household = async (id = randomUUID() as string) => {
    await app.database.query('INSERT INTO households (id, created_at, updated_at) VALUES ($1, now(), now())', [id]);
    return id;
  };
  const join = (id: string, { user }: Owner, role = 'member') =>
    app.database.query(
      'INSERT INTO household_members (household_id, user_id, role, since) VALUES ($1, $2, $3, now())',
      [id, user.id, role],
    );
  const answers = async (owner: Owner): Promise<object[]> => {
    const validated = await owner.as(app.post('/internal/validate-user')).expect(200);
    const token = owner.tokens.access_token;
    const introspected = await app.post('/internal/introspect').set(service).type('form').send({ token }).expect(200);
    const { headers } = await owner.as(app.get('/internal/authorize/user')).expect(200);
    return [
      (validated.body as { households: object }).households,
      (introspected.body as { households: object }).households,
      headers['x-auth-households'] as unknown as object,
    ];
  };

  it('are the households with their roles, and the ids alone for a gateway', async () => {
    const owner = await Owner.of(app);
    expect(await answers(owner)).toEqual([[], [], '']);
    const [one, two] = [await household(), await household()].sort() as [string, string];
    await join(two, owner, 'member');
    await join(one, owner, 'admin');
    const both = [
      { id: one, role: 'admin' },
      { id: two, role: 'member' },
    ];
    expect(await answers(owner)).toEqual([both, both, `${one},${two}`]);
  });

  it('are of each user alone when many ask at the same time', async () => {
    const [home, owners] = [await household(), await Promise.all(Array.from({ length: 6 }, () => Owner.of(app)))];
    for (const owner of owners.slice(0, 3)) await join(home, owner);
    const found = await Promise.all(owners.map((owner) => answers(owner)));
    expect(found.map(([households]) => (households as object[]).length)).toEqual([1, 1, 1, 0, 0, 0]);
  });

  it('stay out of the access token, and out of users/me', async () => {
    const owner = await Owner.of(app);
    await join(await household(), owner);
    const { access_token } = await owner.user.logsIn();
    const claims = Buffer.from(access_token.split('.')[1]!, 'base64url').toString();
    expect(claims).not.toContain('household');
    expect((await app.me(access_token).expect(200)).body).not.toHaveProperty('households');
  });

  it('are read only for answers that name them, which give no verdict without them', async () => {
    const owner = await Owner.of(app);
    const statuses = async (): Promise<number[]> => {
      const { access_token: token } = owner.tokens;
      const introspection = app.post('/internal/introspect').set(service).type('form').send({ token });
      const validation = owner.as(app.post('/internal/validate-user'));
      const gateway = owner.as(app.get('/internal/authorize/user'));
      const found = await Promise.all([app.me(token), validation, gateway, introspection]);
      return found.map(({ status }) => status);
    };
    await app.database.query('ALTER TABLE household_members RENAME TO hidden');
    const hidden = await statuses();
    await app.database.query('ALTER TABLE hidden RENAME TO household_members');
    expect(hidden).toEqual([200, 500, 503, 500]);
    expect(await statuses()).toEqual([200, 200, 200, 200]);
  });

  it('are a change of their user for each insert, update and delete, also by a cascade or as a replica', async () => {
    const changesOf = async (owner: Owner, sql: string, values: string[]) => {
      await app.database.query('DELETE FROM credential_changes');
      await app.database.query(sql, values);
      const sent = `SELECT kind FROM credential_changes WHERE credential_id = $1`;
      return (await app.database.query<{ kind: string }>(sent, [owner.user.id])).map(({ kind }) => kind);
    };
    const [owner, home] = [await Owner.of(app), await household()];
    const insert = `INSERT INTO household_members (household_id, user_id, role, since) VALUES ($1, $2, 'member', now())`;
    const ofBoth = 'WHERE household_id = $1 AND user_id = $2';
    for (const [sql, values] of [
      [insert, [home, owner.user.id]],
      [`UPDATE household_members SET role = 'admin' ${ofBoth}`, [home, owner.user.id]],
      [`DELETE FROM household_members ${ofBoth}`, [home, owner.user.id]],
      [insert, [home, owner.user.id]],
      ['DELETE FROM households WHERE id = $1', [home]],
    ] as const)
      expect([sql, await changesOf(owner, sql, [...values])]).toEqual([sql, ['user']]);
    const other = await household();
    await join(other, owner);
    await app.database.query('DELETE FROM credential_changes');
    await app.database.query(
      `SET session_replication_role = replica; DELETE FROM household_members; RESET session_replication_role`,
    );
    const [change] = await app.database.query('SELECT 1 FROM credential_changes WHERE credential_id = $1', [
      owner.user.id,
    ]);
    expect(change).toBeDefined();
  });

  it('are a change without an id when the table is truncated, so that every cache is cleared', async () => {
    await app.database.query('DELETE FROM credential_changes');
    await app.database.query('TRUNCATE household_members');
    expect(await app.database.query('SELECT kind, credential_id FROM credential_changes')).toEqual([
      { kind: 'user', credential_id: null },
    ]);
  });
});

describe('a household that does not exist', () => {
  const read = (id: string) => app.database.query('SELECT name FROM households WHERE id = $1', [id]);

  it('is made, without a name, when a node or an enrolment names it, and once for parallel ones', async () => {
    const [ofNode, ofEnrolment, ofMany] = [randomUUID(), randomUUID(), randomUUID()];
    await app.node(ofNode);
    await app.admin.post('/enrolments', { household_id: ofEnrolment, room: 'hall', name: 'lamp' }).expect(201);
    await Promise.all(Array.from({ length: 6 }, () => app.node(ofMany)));
    for (const id of [ofNode, ofEnrolment, ofMany]) expect([id, await read(id)]).toEqual([id, [{ name: null }]]);
  });

  it('waits for the deletion of the household that the node names, and is then made anew', async () => {
    const id = randomUUID();
    await app.node(id);
    const deletion = await openTransaction(app.database, `SELECT FROM households WHERE id = '${id}' FOR UPDATE`);
    const registered = app.node(id);
    await deletion.query('DELETE FROM households WHERE id = $1', [id]);
    await deletion.query('COMMIT');
    await deletion.end();
    await registered;
    expect(await read(id)).toEqual([{ name: null }]);
  });
});
