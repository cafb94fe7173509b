import { Client } from 'pg';
import type { Response } from 'supertest';
import { type Problem, problems } from '../../../src/foundation/problems/problems.js';
import { Database } from '../../../src/foundation/database/database.js';
import { eventually } from '../../../tools/eventually.js';
import { expectProblem } from '../../support/expect-problem.js';
import { SHORT_WAITS, withPatientReplica } from '../../support/outage.js';
import { OwnPostgres } from '../../support/own-postgres.js';
import { TestApp, type Tokens, type User } from '../../support/test-app.js';
import { TestClock } from '../../support/test-clock.js';
import { expectVerdict, untilVerdict } from '../../support/until-verdict.js';

const POOL_SIZE = 4;
/** One and a half times the pool. */
const MAX_CONNECTIONS = 6;

interface LoggedIn {
  readonly user: User;
  readonly tokens: Tokens;
}

/** `synchronous_standby_names` names a standby that does not exist: commits wait for it until the setting is reset. */
describe('a synchronous commit that stalls', () => {
  const clock = new TestClock();
  let postgres: OwnPostgres;
  let app: TestApp;

  beforeAll(async () => {
    postgres = await OwnPostgres.start();
    const variables = { ...SHORT_WAITS.variables, DATABASE_POOL_SIZE: String(POOL_SIZE) };
    app = await TestApp.start({ ...SHORT_WAITS, clock, database: postgres.database, variables });
  }, 240_000);

  afterEach(() => resume());

  afterAll(async () => {
    await app.stop();
    await postgres.remove();
  });

  const query = <Row extends object>(sql: string) => postgres.database.query<Row>(sql);
  const backends = async (condition = 'true'): Promise<number> => {
    const sql = `SELECT pid FROM pg_stat_activity WHERE application_name = 'platform-auth' AND ${condition}`;
    return (await query(sql)).length;
  };
  const stalledBackends = () => backends("wait_event = 'SyncRep'");
  /** @returns whether a commit waits for the standby. PostgreSQL shows the new setting before it obeys it. */
  const isCommitHeld = async (): Promise<boolean> => {
    const name = 'probe';
    const probe = new Client({ connectionString: postgres.database.url, application_name: name });
    await probe.connect();
    let hasCommitted = false;
    const commit = probe.query(`SELECT pg_logical_emit_message(true, 'probe', '')`).then(() => (hasCommitted = true));
    const held = `FROM pg_stat_activity WHERE application_name = '${name}' AND wait_event = 'SyncRep'`;
    let isHeld = false;
    await eventually('the commit is done or waits', async () => {
      isHeld = (await query(`SELECT pg_cancel_backend(pid) ${held}`)).length > 0;
      return isHeld || hasCommitted;
    });
    await commit;
    await probe.end();
    return isHeld;
  };
  const stall = async (): Promise<void> => {
    await query(`ALTER SYSTEM SET synchronous_standby_names = 'absent'`);
    await query('SELECT pg_reload_conf()');
    await eventually('commits wait', isCommitHeld);
  };
  const resume = async (): Promise<void> => {
    await query('ALTER SYSTEM RESET synchronous_standby_names');
    await query('SELECT pg_reload_conf()');
    await eventually('no commit waits', async () => (await stalledBackends()) === 0);
    await eventually('all connections are answered', () => app.nest.get(Database).pool.stalled === 0);
  };
  /** Sequential, because the waits are short. */
  const loggedIn = async (count: number): Promise<LoggedIn[]> => {
    const all: LoggedIn[] = [];
    await withPatientReplica(app, async (patient) => {
      for (let i = 0; i < count; i++) {
        const user = await patient.user();
        all.push({ user, tokens: await user.logsIn() });
      }
    });
    return all;
  };

  it('does not exhaust the pool: writes are 503 and reads are answered', async () => {
    const sessions = await loggedIn(30);
    const node = await withPatientReplica(app, (patient) => patient.node());
    const [{ tokens: alice }] = sessions as [LoggedIn, ...LoggedIn[]];
    await stall();
    let most = 0;
    for (const { tokens } of sessions.slice(1)) {
      const answers = await Promise.all([
        app.refresh(tokens.refresh_token),
        app.logout(tokens.refresh_token),
        app.admin.patch(`/nodes/${node.nodeId}`, { room: 'hall' }),
        app.get('/health/live').expect(200, { status: 'ok' }),
      ]);
      for (const answer of answers.slice(0, 3)) expectProblem(answer, problems.unavailable);
      most = Math.max(most, await backends());
    }
    expect(await stalledBackends()).toBeGreaterThan(0);
    expect(most).toBeLessThanOrEqual(MAX_CONNECTIONS);
    await expectVerdict(200, () => app.me(alice.access_token));
    await expectVerdict(200, () => app.validateNode(node.header));
    await expectVerdict(200, () => app.admin.get('/nodes'));
    await resume();
    await expectVerdict(200, () => app.refresh(alice.refresh_token));
    await expectVerdict(200, () => app.login(sessions[0]!.user.email));
  }, 240_000);

  it('does not block the first use of a rotated node key', async () => {
    const header = await withPatientReplica(app, async (patient) => {
      const { nodeId } = await patient.node();
      const { body } = await patient.admin.post(`/nodes/${nodeId}/rotate`).expect(200);
      return `${nodeId}:${(body as { api_key: string }).api_key}`;
    });
    const sessions = await loggedIn(POOL_SIZE);
    await stall();
    await Promise.all(sessions.map(({ tokens }) => app.refresh(tokens.refresh_token)));
    await eventually('writes stall', () => app.nest.get(Database).pool.stalled >= POOL_SIZE / 2);
    await expectVerdict(200, () => app.validateNode(header));
  });

  it('does not refuse the first use of a rotated app key, not even the one whose write stalls', async () => {
    const rotated = await withPatientReplica(app, async (patient) => {
      const { appId, headers } = await patient.service();
      const { body } = await patient.admin.post(`/app-credentials/${appId}/rotate`).expect(200);
      return { ...headers, 'X-Platform-App-Key': (body as { app_key: string }).app_key };
    });
    await stall();
    for (let use = 0; use < 3; use += 1) await app.validateApp(rotated).expect(200);
    expect(await stalledBackends()).toBeGreaterThan(0);
  });

  it('does not make a refresh whose response was lost count as reuse', async () => {
    const [{ user, tokens }] = (await loggedIn(1)) as [LoggedIn, ...LoggedIn[]];
    const rotatedAt = async () =>
      (await query<{ rotated_at: Date }>(`SELECT rotated_at FROM sessions WHERE user_id = '${user.id}'`))[0]!
        .rotated_at;
    await stall();
    expectProblem(await app.refresh(tokens.refresh_token), problems.unavailable);
    clock.advance({ minutes: 2 });
    const before = clock.now();
    await resume();
    await eventually('the grace starts anew', async () => (await rotatedAt()) >= before);
    clock.advance({ seconds: 30 });
    const refresh = () => app.refresh(tokens.refresh_token);
    const { refresh_token } = (await expectVerdict(200, refresh)).body as Tokens;
    expect((await expectVerdict(200, refresh)).body).toMatchObject({ refresh_token });
    clock.advance({ seconds: 31 });
    expectProblem(await untilVerdict(refresh), problems.invalidRefreshToken);
    expectProblem(await untilVerdict(() => app.refresh(refresh_token)), problems.invalidRefreshToken);
  });

  it('returns the successor to a retry that waited for it, also when the rotating replica was lost', async () => {
    const [{ tokens }] = (await loggedIn(1)) as [LoggedIn, ...LoggedIn[]];
    const settings = { ...SHORT_WAITS.settings, databaseStatementTimeoutMs: 20_000 };
    const replica = await TestApp.start({ ...SHORT_WAITS, clock, database: postgres.database, settings });
    const lost = await TestApp.start({ clock, database: postgres.database, ...SHORT_WAITS });
    await stall();
    expectProblem(await lost.refresh(tokens.refresh_token), problems.unavailable);
    await lost.stop();
    clock.advance({ minutes: 2 });
    const retry = replica.refresh(tokens.refresh_token).then((answer) => answer);
    await eventually('the retry waits', async () => (await backends("wait_event_type = 'Lock'")) === 1);
    await resume();
    const { status, body } = await retry;
    expect(status).toBe(200);
    await expectVerdict(200, () => app.refresh((body as Tokens).refresh_token));
    await replica.stop();
  });

  it('allows logouts and revocations that were answered with 503 to be repeated', async () => {
    const [{ tokens }, { tokens: bearer }, { user, tokens: third }] = (await loggedIn(3)) as [
      LoggedIn,
      LoggedIn,
      LoggedIn,
      ...LoggedIn[],
    ];
    const [node, service] = await withPatientReplica(
      app,
      async (patient) => [await patient.node(), await patient.service()] as const,
    );
    const acts = [
      () => app.logout(tokens.refresh_token),
      () => app.post('/api/v0/auth/logout').set('Authorization', `Bearer ${bearer.access_token}`),
      () => app.admin.delete(`/nodes/${node.nodeId}`),
      () => app.admin.delete(`/app-credentials/${service.appId}`),
      () => app.admin.delete(`/users/${user.id}/sessions`),
    ];
    for (const act of acts) {
      await stall();
      expectProblem(await act(), problems.unavailable);
      await resume();
      await expectVerdict(204, act);
      await expectVerdict(204, act);
    }
    const expectRefused = async (call: () => PromiseLike<Response>, problem: Problem): Promise<void> =>
      expectProblem(await untilVerdict(call), problem);
    await expectRefused(() => app.refresh(tokens.refresh_token), problems.invalidRefreshToken);
    for (const { access_token } of [bearer, third])
      await expectRefused(() => app.me(access_token), problems.invalidAccessToken);
    await expectRefused(() => app.validateNode(node.header), problems.invalidNodeCredentials);
    await expectRefused(() => app.validateApp(service.headers), problems.invalidAppCredentials);
  }, 240_000);

  it('does not delay the stop of a replica', async () => {
    const [{ tokens }] = (await loggedIn(1)) as [LoggedIn, ...LoggedIn[]];
    const replica = await TestApp.start({ clock, database: postgres.database, ...SHORT_WAITS });
    await stall();
    expectProblem(await replica.refresh(tokens.refresh_token), problems.unavailable);
    await replica.stop();
    // The refresh of the stopped replica; background writes of the other replica may wait too.
    expect(await stalledBackends()).toBeGreaterThan(0);
  });
});
