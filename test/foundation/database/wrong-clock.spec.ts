import { ComparedClock } from '../../../src/foundation/database/compared-clock.js';
import type { DatabaseClock } from '../../../src/foundation/database/database.js';
import { problems } from '../../../src/foundation/problems/problems.js';
import { repeatWhile } from '../../../tools/repeat-while.js';
import { expectProblem } from '../../support/expect-problem.js';
import { expectVerdict } from '../../support/until-verdict.js';
import type { Device, NamedOperator, Tokens, User } from '../../support/test-app.js';
import { TestClock } from '../../support/test-clock.js';
import { useApp, useAppPerTest, useReplica } from '../../support/use-app.js';

const DAYS = 2;
const OVERLAP_HOURS = 24;

describe.each([
  ['ahead of', DAYS],
  ['behind', -DAYS],
])('a replica whose clock jumps to two days %s the clock of PostgreSQL', (_name, days) => {
  const app = useApp();
  const replica = useReplica(app, { clock: new TestClock() });
  let alice: User;
  let tokens: Tokens;
  let operator: NamedOperator;
  /** Expires too, and was accepted by the replica while its clock was right. */
  let cached: Device;
  let expiring: Device;
  let rotated: Device;
  let expiresAt: string;

  beforeAll(async () => {
    expiresAt = new Date(app.clock.now().getTime() + 3_600_000).toISOString();
    alice = await app.user();
    tokens = await alice.logsIn();
    operator = await app.operator(['nodes'], undefined, expiresAt);
    [cached, expiring, rotated] = [await app.node(), await app.node(), await app.node()];
    for (const { nodeId } of [cached, expiring])
      await app.admin.patch(`/nodes/${nodeId}`, { expires_at: expiresAt }).expect(200);
    await app.admin.post(`/nodes/${rotated.nodeId}/rotate`, { overlap_hours: OVERLAP_HOURS }).expect(200);
    await expectVerdict(200, () => replica.validateNode(cached.header));
    replica.clock.drift({ days });
  });

  it('is not ready, and alive', async () => {
    // On a busy machine PostgreSQL may answer too late, which is a 503 too.
    const { body } = await repeatWhile(
      (answer) => answer.body.details.database.status !== 'up',
      () => replica.get('/health').expect(503),
    );
    expect(body).toMatchObject({ error: { clock: { status: 'down' } }, details: { database: { status: 'up' } } });
    expectProblem(await replica.get('/health/ready'), problems.unavailable);
    await replica.get('/health/live').expect(200);
  });

  it('gives no verdict on an access token, at any route', async () => {
    const authorization = `Bearer ${tokens.access_token}`;
    expectProblem(await replica.me(tokens.access_token), problems.unavailable);
    for (const path of ['/internal/validate-user', '/api/v0/auth/logout'])
      expectProblem(await replica.post(path).set('Authorization', authorization), problems.unavailable);
    await app.me(tokens.access_token).expect(200);
  });

  it('gives no verdict on keys that expire, also in its cache, and on the old key of an overlap', async () => {
    expectProblem(await replica.validateNode(cached.header), problems.unavailable);
    expectProblem(await replica.validateNode(expiring.header), problems.unavailable);
    expectProblem(await replica.validateNode(rotated.header), problems.unavailable);
    expectProblem(await operator.as(replica).get('/nodes'), problems.unavailable);
    expectProblem(await replica.admin.get(`/nodes/${expiring.nodeId}/explain`), problems.unavailable);
    await app.validateNode(expiring.header).expect(200);
    await app.validateNode(rotated.header).expect(200);
  });

  it('gives the verdicts that no clock decides', async () => {
    const [node, service, revoked] = [await app.node(), await app.service(), await app.node()];
    await app.admin.delete(`/nodes/${revoked.nodeId}`).expect(204);
    await replica.validateNode(node.header).expect(200);
    await replica.validateApp(service.headers).expect(200);
    for (const header of [revoked.header, `${expiring.nodeId}:wrong`])
      expectProblem(await replica.validateNode(header), problems.invalidNodeCredentials);
    expectProblem(await replica.me(`${tokens.access_token}x`), problems.invalidAccessToken);
    expectProblem(await replica.login(alice.email, 'not the password'), problems.invalidCredentials);
  });

  it('issues no token, and leaves the refresh token valid', async () => {
    expectProblem(await replica.login(alice.email), problems.unavailable);
    const { refresh_token } = await alice.logsIn();
    expectProblem(await replica.refresh(refresh_token), problems.unavailable);
    await app.refresh(refresh_token).expect(200);
  });

  it('rotates no key, and revokes none as expired', async () => {
    const node = await app.node();
    expectProblem(await replica.admin.post(`/nodes/${node.nodeId}/rotate`), problems.unavailable);
    expectProblem(await replica.admin.post(`/operators/${operator.id}/rotate`), problems.unavailable);
    const [caller, target] = ['ocr', `target-${days}`];
    const issue = { caller, target, expires_at: expiresAt };
    const { body } = await app.admin.post('/app-credentials', issue).expect(201);
    expectProblem(await replica.admin.post('/app-credentials', issue), problems.unavailable);
    await app.validateNode(node.header).expect(200);
    await app.admin
      .get(`/app-credentials/${body.app_id as string}`)
      .expect(200)
      .expect(({ body: found }) => {
        expect(found).toMatchObject({ revoked_at: null });
      });
  });

  it('revokes keys, and records when by the clock of PostgreSQL, so that retention keeps the record', async () => {
    const node = await app.node();
    await replica.admin.delete(`/nodes/${node.nodeId}`).expect(204);
    expectProblem(await app.validateNode(node.header), problems.invalidNodeCredentials);
    const recorded = await app.database.query<{ skewSeconds: number }>(
      `SELECT abs(extract(epoch FROM revoked_at - clock_timestamp()))::float AS "skewSeconds" FROM nodes WHERE id = $1::uuid
       UNION ALL
       SELECT abs(extract(epoch FROM time - recorded_at))::float FROM audit_events WHERE subject = $1::text`,
      [node.nodeId],
    );
    expect(recorded).toHaveLength(3);
    for (const { skewSeconds } of recorded) expect(skewSeconds).toBeLessThan(300);
  });

  it('is ready and gives verdicts again as soon as its clock is right', async () => {
    replica.clock.drift({ days: -days });
    await replica.get('/health').expect(200);
    await replica.me(tokens.access_token).expect(200);
    await replica.validateNode(expiring.header).expect(200);
  });
});

describe('a replica', () => {
  const app = useAppPerTest();

  it('whose clock differs by 50 seconds gives verdicts', async () => {
    const { access_token } = await (await app.user()).logsIn();
    app.clock.drift({ seconds: 50 });
    await app.get('/health').expect(200);
    await app.me(access_token).expect(200);
  });

  it('whose clock jumps while PostgreSQL cannot be asked notices the jump', async () => {
    await app.database.drop();
    expect((await app.get('/health').expect(503)).body).toMatchObject({ details: { clock: { status: 'up' } } });
    app.clock.drift({ days: DAYS });
    expect((await app.get('/health').expect(503)).body).toMatchObject({ details: { clock: { status: 'down' } } });
  });
});

describe('the comparison of clocks', () => {
  /** PostgreSQL reads its clock, which is right, `sent` after it was asked, and the answer arrives `answered` later. */
  const compareWith = async (sent: { seconds: number }, answered: { seconds: number }): Promise<number | undefined> => {
    const clock = new TestClock();
    const database = {
      now: () => {
        clock.advance(sent);
        const now = clock.now();
        clock.advance(answered);
        return Promise.resolve(now);
      },
    } as unknown as DatabaseClock;
    const compared = new ComparedClock(clock, database);
    await compared.compareClocks();
    return compared.skewSeconds;
  };

  it('errs by half of the time that the answer took', async () => {
    expect(await compareWith({ seconds: 4 }, { seconds: 4 })).toBeCloseTo(0, 1);
    expect(await compareWith({ seconds: 8 }, { seconds: 0 })).toBeCloseTo(-4, 1);
  });

  it('ignores an answer that took longer than 10 seconds, such as that of a process that was frozen meanwhile', async () => {
    expect(await compareWith({ seconds: 0 }, { seconds: 180 })).toBeUndefined();
  });

  it('keeps the answer that was asked for last, whatever answer arrives last', async () => {
    const clock = new TestClock();
    const answers: ((now: Date) => void)[] = [];
    const database = { now: () => new Promise<Date>((resolve) => answers.push(resolve)) } as unknown as DatabaseClock;
    const compared = new ComparedClock(clock, database);
    const before = clock.now();
    const first = compared.compareClocks();
    clock.advance({ seconds: 1 });
    const second = compared.compareClocks();
    const jumped = new Date(clock.now().getTime() + DAYS * 86_400_000);
    answers[1]?.(jumped);
    await second;
    clock.advance({ seconds: 1 });
    answers[0]?.(before);
    await first;
    expect(compared.skewSeconds).toBeCloseTo(-DAYS * 86_400, 0);
  });
});
