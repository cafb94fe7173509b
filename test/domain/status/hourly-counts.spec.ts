import { randomUUID } from 'node:crypto';
import { PurgeJob } from '../../../src/domain/maintenance/jobs.js';
import { COUNTER_NAMES, type Counts } from '../../../src/foundation/common/hourly-counters.js';
import { Database, type Statement } from '../../../src/foundation/database/database.js';
import { problems } from '../../../src/foundation/problems/problems.js';
import { eventually } from '../../../tools/eventually.js';
import { expectProblem } from '../../support/expect-problem.js';
import { UNLEASED } from '../../support/settings.js';
import { accept } from '../../support/home.js';
import { Owner } from '../../support/owner.js';
import { countByStatus } from '../../support/throttled.js';
import { useAppPerTest } from '../../support/use-app.js';

const HOUR_SECONDS = 3_600;
const NOTHING = Object.fromEntries(COUNTER_NAMES.map((name) => [name, 0])) as Counts;

const pickCounts = (hour: Counts): Counts =>
  Object.fromEntries(COUNTER_NAMES.map((name) => [name, hour[name]])) as Counts;

describe('GET /api/v0/admin/hourly-counts', () => {
  const app = useAppPerTest({ variables: UNLEASED, settings: { adminKeyLimitPerAddress: { points: 2, seconds: 60 } } });

  const listHours = async (hours: number) =>
    (await app.admin.get(`/hourly-counts?hours=${hours}`).expect(200)).body.items as Counts[];
  const expectHours = async (...expected: Partial<Counts>[]): Promise<void> => {
    let seen: Counts[] = [];
    const total = (hours: readonly Partial<Counts>[]) =>
      hours.flatMap((hour) => Object.values(hour)).reduce((a, b) => a + b, 0);
    // A request is counted after its response was sent.
    await eventually('all is counted', async () => {
      seen = (await listHours(expected.length)).map(pickCounts);
      return total(seen) >= total(expected);
    });
    expect(seen).toEqual(expected.map((counts) => ({ ...NOTHING, ...counts })));
  };
  const enterNextHour = (): void =>
    app.clock.advance({ seconds: HOUR_SECONDS - ((app.clock.now().getTime() / 1_000) % HOUR_SECONDS) + 1 });

  // No test sees an hour end.
  beforeEach(async () => {
    enterNextHour();
    await listHours(1);
  });

  it('counts logins, guesses, keys and validations, and nothing else', async () => {
    const alice = await app.user();
    await alice.logsIn();
    await app.login(alice.email, 'wrong password').expect(401);
    await app.login('nobody@example.org', 'wrong password').expect(401);
    const node = await app.node();
    await app.validateNode(node.header).expect(200);
    await app.validateNode(`${randomUUID()}:${node.apiKey}`).expect(401);
    const service = await app.service();
    await app.validateApp({ ...service.headers, 'X-Platform-Target': service.target }).expect(200);
    for (const status of [401, 401, 429]) await app.asAdmin('x'.repeat(40)).get('/nodes').expect(status);
    await expectHours({
      logins: 1,
      new_sessions: 1,
      failed_logins: 2,
      validations: 2,
      refused_keys: 3,
      throttled_guesses: 1,
    });
  });

  it('counts guesses at the codes of invitations that were throttled', async () => {
    const guest = await Owner.of(app);
    const answers = await Promise.all(Array.from({ length: 13 }, () => accept(app, guest, '0'.repeat(24))));
    expect(countByStatus(answers)).toEqual({ 404: 10, 429: 3 });
    await expectHours({ logins: 1, new_sessions: 1, throttled_guesses: 3 });
  });

  it('adds up what replicas counted, and loses nothing when one stops', async () => {
    const alice = await app.user();
    await alice.logsIn();
    const replica = await app.startReplica();
    await alice.logsIn(replica);
    await alice.logsIn(replica);
    await replica.stop();
    await expectHours({ logins: 3, new_sessions: 3 });
  });

  it('counts once what was written twice, because the answer of PostgreSQL was lost', async () => {
    const alice = await app.user();
    await alice.logsIn();
    const database = app.nest.get(Database, { strict: false });
    const rows = database.rows.bind(database);
    let lost = 0;
    database.rows = async <Row extends object>(statement: Statement, values: unknown[]): Promise<Row[]> => {
      const written = await rows<Row>(statement, values);
      if (statement.name !== 'hourly_counts_write' || lost === 3) return written;
      lost += 1;
      throw new Error('Connection terminated');
    };
    for (let answer = 1; answer <= 3; answer++) await listHours(1);
    expect(lost).toBe(3);
    await alice.logsIn();
    await expectHours({ logins: 2, new_sessions: 2 });
  });

  it('begins an hour when PostgreSQL does, whatever the clock of the replica says', async () => {
    const alice = await app.user();
    await alice.logsIn();
    await expectHours({ logins: 1, new_sessions: 1 });
    enterNextHour();
    await expectHours({ logins: 1, new_sessions: 1 }, {});
    app.clock.drift({ seconds: 50 - HOUR_SECONDS });
    await app.validateNode(`${randomUUID()}:key`).expect(401);
    await expectHours({ logins: 1, new_sessions: 1 }, { refused_keys: 1 });
    app.clock.drift({ seconds: HOUR_SECONDS - 50 });
  });

  it('keeps an hour for 35 days', async () => {
    await (await app.user()).logsIn();
    await expectHours({ logins: 1, new_sessions: 1 });
    const kept = async (): Promise<number> => {
      await app.nest.get(PurgeJob, { strict: false }).purgeExpired();
      return (await app.database.query('SELECT FROM hourly_counts WHERE logins > 0')).length;
    };
    app.clock.advance({ days: 35, minutes: -1 });
    expect(await kept()).toBe(1);
    app.clock.advance({ minutes: 61 });
    expect(await kept()).toBe(0);
  });

  it('refuses a number of hours that is not a whole number from 1 to 840', async () => {
    for (const hours of ['0', '841', '1.5', '0x10', ''])
      expectProblem(await app.admin.get(`/hourly-counts?hours=${hours}`), problems.validationFailed);
  });
});
