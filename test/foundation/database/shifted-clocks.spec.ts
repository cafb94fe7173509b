import type { Response } from 'supertest';
import { CountedRefusals } from '../../../src/domain/audit/counted-refusals.js';
import { AuditJob, PurgeJob } from '../../../src/domain/maintenance/jobs.js';
import { NODE_KEYS, type NodeKeys } from '../../../src/domain/nodes/nodes.service.js';
import { ComparedClock } from '../../../src/foundation/database/compared-clock.js';
import { Auditor, seal } from '../../domain/audit/auditor.js';
import { ShiftedDatabase } from '../../support/shifted-database.js';
import { TestApp, type Tokens } from '../../support/test-app.js';
import { TestClock } from '../../support/test-clock.js';
import { untilVerdict } from '../../support/until-verdict.js';

const DAY = 86_400;
const GOOD = 200;
const REFUSED = 401;
const UNKNOWN = 503;
/** The service tolerates this difference. A measured one of exactly a minute is on either side of it. */
const TOLERATED_SECONDS = 60;
/** Above the difference that the service tolerates, and far below a day. */
const MAX_ERROR_SECONDS = 300;

/** The last one lets retention forget what the others made. */
const SHIFTS = [
  ['back by a second', -1],
  ['back by a minute', -60],
  ['back by a day', -DAY],
  ['forward by 400 days', 400 * DAY],
] as const;

/** What a replica is asked about; made while all clocks are right. */
type Credentials = Awaited<ReturnType<typeof issue>>;

interface Replica {
  readonly app: TestApp;
  /** By how much its clock is ahead of PostgreSQL's. */
  readonly skewSeconds: number;
  readonly credentials: Credentials;
}

describe.each([
  ['a replica', { replica: 1, postgres: 0 }],
  ['PostgreSQL', { replica: 0, postgres: 1 }],
  ['PostgreSQL and a replica', { replica: 1, postgres: 1 }],
])('when the clock of %s', (_who, shifted) => {
  let database: ShiftedDatabase;
  let auditor: Auditor;
  /** The clock of the second one is shifted. */
  let apps: TestApp[];

  beforeAll(async () => {
    database = await ShiftedDatabase.create();
    auditor = new Auditor(database);
    const first = await TestApp.start({ database });
    apps = [first, await first.startReplica({ clock: new TestClock() })];
  });

  afterAll(async () => {
    await apps[0]!.stop();
    await database.drop();
  });

  describe.each(SHIFTS)('jumps %s', (_how, seconds) => {
    const [ofReplica, ofPostgres] = [shifted.replica * seconds, shifted.postgres * seconds];
    let replicas: Replica[];
    let before: string[];

    beforeAll(async () => {
      const credentials = await Promise.all(apps.map(issue));
      const skews = [-ofPostgres, ofReplica - ofPostgres];
      replicas = apps.map((app, index) => ({ app, skewSeconds: skews[index]!, credentials: credentials[index]! }));
      await seal(apps[0]!);
      before = await readKept(database);
      await shiftClocks(1);
    });

    const shiftClocks = async (factor: 1 | -1): Promise<void> => {
      await database.shift(factor === 1 ? ofPostgres : 0);
      apps[1]!.clock.drift({ seconds: factor * ofReplica });
    };

    const each = async (act: (replica: Replica) => Promise<unknown>): Promise<void> => {
      for (const replica of replicas) await act(replica);
    };

    /** @returns the answers to what the time decides, given the verdict that the clock of PostgreSQL leads to */
    const allow = ({ skewSeconds }: Replica, verdict: number): number[] => {
      const skew = Math.abs(skewSeconds);
      if (skew > TOLERATED_SECONDS) return [UNKNOWN];
      return skew === TOLERATED_SECONDS ? [verdict, UNKNOWN] : [verdict];
    };
    /** By the clock of PostgreSQL, everything that was issued before the shift and expires has expired. */
    const hasExpired = ofPostgres > 0;
    const unlessExpired = hasExpired ? REFUSED : GOOD;

    const isWrong = (replica: Replica): boolean => allow(replica, GOOD)[0] === UNKNOWN;
    /** Whether a replica may delete what has expired. */
    const mayForget = (): boolean => hasExpired && !replicas.every(isWrong);

    it('refuses nothing that is good before it compares the clocks', async () => {
      await each(async ({ app, credentials: { kept, node } }) => {
        await expectOneOf([GOOD], () => app.validateNode(node.header));
        await expectOneOf(hasExpired ? [GOOD, UNKNOWN, REFUSED] : [GOOD, UNKNOWN], () => validateUser(app, kept));
      });
      await each(({ app }) => app.nest.get(ComparedClock).compareClocks());
    });

    it('judges keys without an expiry', () =>
      each(async ({ app, credentials: { node, revoked, service } }) => {
        await expectOneOf([GOOD], () => app.validateNode(node.header));
        await expectOneOf([GOOD], () => app.validateApp(service.headers));
        await expectOneOf([REFUSED], () => app.validateNode(revoked.header));
      }));

    it('judges what the time decides where the clocks agree, and answers 503 where they differ', () =>
      each(async (replica) => {
        const { app, credentials } = replica;
        const { user, kept, refreshed, expiring } = credentials;
        await expectOneOf(allow(replica, unlessExpired), () => app.validateNode(expiring.header));
        // Signed in the future of a clock that was set back: no verdict, until its session is refreshed.
        const isOfFuture = ofPostgres <= -TOLERATED_SECONDS;
        const answers = [...allow(replica, unlessExpired), ...(isOfFuture ? [UNKNOWN] : [])];
        await expectOneOf(answers, () => validateUser(app, kept));
        const login = await expectOneOf(allow(replica, GOOD), () => app.login(user.email));
        const refresh = await expectOneOf(allow(replica, unlessExpired), () => app.refresh(refreshed.refresh_token));
        for (const { status, body } of [login, refresh])
          if (status === GOOD) await expectOneOf(allow(replica, GOOD), () => validateUser(app, body as Tokens));
      }));

    it('ends the session of a refresh token that was rotated long before, and opens no grace again', () =>
      each(async (replica) => {
        const { app, credentials } = replica;
        const { reused, repeated, successor, later } = credentials;
        const reuse = await expectOneOf(allow(replica, REFUSED), () => app.refresh(reused.refresh_token));
        if (reuse.status === REFUSED) await expectOneOf(allow(replica, REFUSED), () => app.refresh(later));
        const isWithinGrace = Math.abs(ofPostgres) <= 1;
        const repeat = await expectOneOf(allow(replica, isWithinGrace ? GOOD : REFUSED), () =>
          app.refresh(repeated.refresh_token),
        );
        if (repeat.status === GOOD) expect((repeat.body as Tokens).refresh_token).toBe(successor);
      }));

    it('revokes keys, and deletes and dates everything by the clock of PostgreSQL', async () => {
      await each(async ({ app, credentials: { revokedLater, ended } }) => {
        await expectOneOf([204], () => app.admin.delete(`/nodes/${revokedLater.nodeId}`));
        await expectOneOf([REFUSED], () => app.validateNode(revokedLater.header));
        await expectOneOf([204], () => app.logout(ended.refresh_token));
      });
      // Otherwise first uses and refusals are written half a minute later, which a fast machine never sees.
      await each(async ({ app }) => {
        await app.nest.get<NodeKeys>(NODE_KEYS, { strict: false }).flushLastUsed();
        await app.nest.get(CountedRefusals).flush();
      });
      const written = await readKept(database);
      await each(async ({ app }) => {
        await app.nest.get(AuditJob).maintainAuditLog();
        await app.nest.get(PurgeJob).purgeExpired();
      });
      const kept = mayForget() ? written.filter((row) => !before.includes(row)) : written;
      expect(await readKept(database)).toEqual(expect.arrayContaining(kept));
      expect(
        await database.query(MISDATED, [replicas.map(({ credentials }) => credentials.revokedLater.nodeId)]),
      ).toEqual([]);
    });

    it('leaves an audit log without findings', async () => {
      await each(({ app }) => seal(app));
      expect(await auditor.verify()).toMatchObject({ findings: [] });
    });

    it('judges and deletes as before once all clocks are right again', async () => {
      await shiftClocks(-1);
      await each(({ app }) => app.nest.get(ComparedClock).compareClocks());
      const all = await readKept(database);
      await each(async ({ app, credentials: { user, kept, node, revoked, revokedLater } }) => {
        await expectOneOf([GOOD], () => app.validateNode(node.header));
        for (const { header } of [revoked, revokedLater]) await expectOneOf([REFUSED], () => app.validateNode(header));
        await expectOneOf([mayForget() ? REFUSED : GOOD], () => validateUser(app, kept));
        const { body } = await expectOneOf([GOOD], () => app.login(user.email));
        await expectOneOf([GOOD], () => validateUser(app, body as Tokens));
        await app.nest.get(AuditJob).maintainAuditLog();
        await app.nest.get(PurgeJob).purgeExpired();
        await seal(app);
      });
      expect(await readKept(database)).toEqual(expect.arrayContaining(all));
      expect(await auditor.verify()).toMatchObject({ findings: [] });
    });
  });
});

async function issue(app: TestApp) {
  const user = await app.user();
  const kept = await user.logsIn();
  const [refreshed, reused, repeated, ended] = [
    await user.logsIn(),
    await user.logsIn(),
    await user.logsIn(),
    await user.logsIn(),
  ];
  const { refresh_token: later } = await app.rotate(reused.refresh_token);
  await app.database.query(`UPDATE sessions SET rotated_at = rotated_at - interval '1 hour' WHERE user_id = $1`, [
    user.id,
  ]);
  const [node, expiring, revoked, revokedLater] = [
    await app.node(),
    await app.node(),
    await app.node(),
    await app.node(),
  ];
  const expires_at = new Date(app.clock.now().getTime() + 30 * DAY * 1_000).toISOString();
  await app.admin.patch(`/nodes/${expiring.nodeId}`, { expires_at }).expect(200);
  await app.admin.delete(`/nodes/${revoked.nodeId}`).expect(204);
  const service = await app.service();
  // The last act before the shift, because its grace is short.
  const { refresh_token: successor } = await app.rotate(repeated.refresh_token);
  const sessions = { kept, refreshed, reused, later, repeated, successor, ended };
  return { user, ...sessions, node, expiring, revoked, revokedLater, service };
}

function validateUser(app: TestApp, { access_token }: Tokens) {
  return app.post('/internal/validate-user').set('Authorization', `Bearer ${access_token}`);
}

/** Where 503 is no answer, repeats it, because a busy machine may cause one. */
async function expectOneOf(statuses: readonly number[], call: () => PromiseLike<Response>): Promise<Response> {
  const answer = statuses.includes(UNKNOWN) ? await call() : await untilVerdict(call);
  const { method, url } = (answer as unknown as { request: { method: string; url: string } }).request;
  const asked = `${method} ${new URL(url).pathname}`;
  expect({ asked, status: answer.status, body: answer.body as unknown }).toMatchObject({
    asked,
    status: statuses.find((status) => status === answer.status) ?? statuses[0],
  });
  return answer;
}

/** What retention deletes. */
async function readKept(database: ShiftedDatabase): Promise<string[]> {
  const rows = await database.query<{ name: string }>(`SELECT 'node ' || id AS name FROM nodes
    UNION ALL SELECT 'session ' || id FROM sessions UNION ALL SELECT 'audit event ' || id FROM audit_events`);
  return rows.map(({ name }) => name);
}

/**
 * Rows that have another time than PostgreSQL's, and audit rows that are in the partition of another month. A first use
 * is written up to half a minute after it, and a counted refusal when its window is over, so a shift may come between.
 */
const MISDATED = `SELECT id::text, revoked_at AS time FROM nodes
    WHERE id = ANY ($1::uuid[]) AND abs(extract(epoch FROM revoked_at - clock.clock_timestamp())) > ${MAX_ERROR_SECONDS}
  UNION ALL SELECT event, time FROM audit_events
    WHERE (abs(extract(epoch FROM time - recorded_at)) > ${MAX_ERROR_SECONDS}
        AND event NOT LIKE ALL ('{%.first_used,%.validation.failed}'))
      OR tableoid::regclass::text <> to_char(time AT TIME ZONE 'UTC', '"audit_events_"YYYY_MM')`;
