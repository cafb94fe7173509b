// What breaks only with time: two replicas and PostgreSQL share one clock, which jumps from noon to noon over a year end
// (libfaketime). Each day brings new sessions, keys and links, and judges those of the days before, the rows that
// retention keeps and deletes, and the seals of the audit log. The last line counts what was judged.
import { parseArgs } from 'node:util';
import { z } from 'zod';
import { Checks } from '../tools/checks.js';
import type { Cleanup } from '../tools/cleanup.js';
import { readCommandLine } from '../tools/command-line.js';
import { eventually } from '../tools/eventually.js';
import { PostgresServer } from '../tools/postgres-server.js';
import { untilVerdict } from '../tools/repeat-while.js';
import { PATIENT_SETTINGS, replaceSettings } from '../tools/replace-settings.js';
import { isHealthy } from '../tools/server-process.js';
import { makeSecrets, productionVariables } from '../tools/service.js';
import { SharedClock, whyNoFaketime } from '../tools/shared-clock.js';
import { closeConnections, send, type Request } from './client.js';
import { Replica } from './replica.js';
import { verifyAudit } from './verify-audit.js';

const MAX_DAYS = 365;
const DAY_SECONDS = 86_400;
const DAY_MS = DAY_SECONDS * 1_000;
/** A day takes a few seconds. The bound only ends a run that hangs. */
const MAX_SECONDS_PER_DAY = 20;
/** Until then each process reads the new time at a moment of its own. */
const MAX_JUMP_MS = 2_000;
const PASSWORD = 'a perfectly fine passphrase';
const REPLICAS = 2;

const ACCESS_TOKEN_DAYS = 2;
const REFRESH_TOKEN_DAYS = 7;
const SESSION_DAYS = 20;
const SIGNING_KEY_DAYS = 10;
const RETENTION_DAYS = 20;
const VARIABLES = {
  BCRYPT_COST: '4',
  ACCESS_TOKEN_ALGORITHM: 'ES256',
  ACCESS_TOKEN_EXPIRE_MINUTES: String(ACCESS_TOKEN_DAYS * 1_440),
  REFRESH_TOKEN_EXPIRE_DAYS: String(REFRESH_TOKEN_DAYS),
  SESSION_MAX_AGE_DAYS: String(SESSION_DAYS),
  SIGNING_KEY_DAYS: String(SIGNING_KEY_DAYS),
  AUDIT_RETENTION_DAYS: String(RETENTION_DAYS),
  // Jobs and seals run within seconds, because a day takes no longer.
  NODE_OPTIONS: replaceSettings({ ...PATIENT_SETTINGS, purgeIntervalMinutes: 0.05, auditSealIntervalSeconds: 1 }),
};
const JOBS = ['audit_maintenance', 'key_maintenance', 'purge'];
/** Lines of the log that no day may bring. */
const FAULTS = [
  'internal_error',
  'purge_failed',
  'audit_job_failed',
  'signing_keys_job_failed',
  'audit_seal_failed',
  'event_copy_failed',
];

/** Statements that find rows which ought not to be, by what they would mean. */
const STRAYS = {
  'sessions outlive their retention': `SELECT FROM sessions
    WHERE LEAST(expires_at, ended_at) < now() - interval '${RETENTION_DAYS} days 1 hour'`,
  'links outlive their end': `SELECT FROM one_time_tokens WHERE expires_at < now() - interval '1 hour'`,
  'mails are kept for more than two days': `SELECT FROM mail_requests WHERE requested_at < now() - interval '49 hours'`,
  'a signing key is not replaced': `SELECT FROM signing_keys
    WHERE state = 'active' AND COALESCE(activated_at, created_at) < now() - interval '${SIGNING_KEY_DAYS + 1} days'`,
  'audit rows are in the partition of another month': `SELECT FROM audit_events
    WHERE tableoid::regclass::text <> to_char(time AT TIME ZONE 'UTC', '"audit_events_"YYYY_MM')`,
  'a month of the audit log is not made in advance': `SELECT FROM generate_series(0, 3) AS n
    WHERE to_regclass(to_char(now() AT TIME ZONE 'UTC' + n * interval '1 month', '"audit_events_"YYYY_MM')) IS NULL`,
  // A month stays longer while it holds a row that was recorded days after its time.
  'a month of the audit log outlives its retention': `SELECT FROM audit_events_months()
    WHERE starts + interval '1 month' < now() - interval '${RETENTION_DAYS + 4} days'`,
};

const RECORDED_AT_JUMP = `SELECT id::text FROM audit_events WHERE id = ANY ($1::uuid[]) AND EXISTS (
  SELECT FROM unnest($2::timestamptz[]) AS jump WHERE recorded_at BETWEEN jump AND jump + interval '12 seconds')`;

const recorded = z.array(z.object({ id: z.string() }));
const registered = z.object({ id: z.string() });
const issuedNode = z.object({ node_id: z.string(), api_key: z.string() });
const issuedApp = z.object({ app_id: z.string(), app_key: z.string() });
const issuedLink = z.object({ token: z.string() });
const issuedTokens = z.object({ access_token: z.string(), refresh_token: z.string() });
const claims = z.object({ sid: z.string(), iat: z.number(), exp: z.number() });
const header = z.object({ kid: z.string() });
const jwks = z.object({ keys: z.array(z.object({ kid: z.string() })) });
type Tokens = z.infer<typeof issuedTokens>;

const { days } = readCommandLine(
  `Usage: npm run days -- [--days N]

  --days N   1 to ${MAX_DAYS} (default 60, about ten minutes)
  --help     print this text`,
  () => {
    const { values } = parseArgs({ options: { days: { type: 'string', default: '60' } } });
    const count = Number(values.days);
    if (!Number.isInteger(count) || count < 1 || count > MAX_DAYS) throw new Error(`--days: 1 to ${MAX_DAYS}`);
    return { days: count };
  },
);

/** The service over the days. */
class Calendar {
  private day = 0;
  private asked = 0;
  /** What is judged on a later day. */
  private due: { readonly day: number; readonly judge: () => Promise<void> }[] = [];
  /** Refreshed every day, until its absolute end. */
  private daily: { readonly since: number; readonly startedAt: number; tokens: Tokens } | undefined;
  private readonly jumps: Date[] = [];
  /** Good at the next jump. */
  private atJump: Request[] = [];
  private readonly deadline = performance.now() + (days + 4) * MAX_SECONDS_PER_DAY * 1_000;
  /** From the clock of this machine to noon on the day before the first one. */
  private readonly offsetMs = Date.UTC(new Date().getUTCFullYear() + 1, 11, 9, 12) - Date.now();

  private constructor(
    private readonly clock: SharedClock,
    private readonly postgres: PostgresServer,
    private readonly secrets: ReturnType<typeof makeSecrets>,
    private readonly replicas: Replica[],
  ) {}

  static async open(cleanup: Cleanup): Promise<Calendar> {
    const clock = new SharedClock(cleanup);
    const postgres = await PostgresServer.start(cleanup, 'days');
    const calendar = new Calendar(clock, postgres, makeSecrets(), []);
    calendar.setClock();
    await postgres.restartWith(clock.variables);
    const variables = { ...productionVariables(postgres.url, calendar.secrets), ...VARIABLES, ...clock.variables };
    for (let started = 0; started < REPLICAS; started += 1) {
      const replica = await Replica.create(cleanup, variables);
      await replica.start();
      calendar.replicas.push(replica);
    }
    return calendar;
  }

  async playDay(): Promise<void> {
    if (performance.now() > this.deadline) throw new Error('The days take too long');
    this.day += 1;
    this.setClock();
    await this.settle();
    const due = this.due.filter(({ day }) => day <= this.day);
    this.due = this.due.filter(({ day }) => day > this.day);
    for (const { judge } of due) await judge();
    await this.refreshDaily();
    await this.useSessions();
    await this.useNodes();
    await this.useApps();
    await this.useLinks();
    await this.judgeRows();
    await this.judgeSeals();
  }

  judgeLogs(): void {
    for (const fault of FAULTS)
      for (const replica of this.replicas) expect(`lines "${fault}" in the log`, 0, replica.countInLog(`"${fault}"`));
  }

  get now(): Date {
    return new Date(Date.now() + this.offsetMs + this.day * DAY_MS);
  }

  private setClock(): void {
    const seconds = Math.round((this.now.getTime() - Date.now()) / 1_000);
    this.clock.set(seconds);
    this.jumps.push(new Date(Date.now() + seconds * 1_000));
  }

  /** Until the jobs of the new day have run, what was good before the jump is good or a 503. */
  private async settle(): Promise<void> {
    const jumpedAt = new Date(this.now.getTime() + MAX_JUMP_MS);
    const ranSince = 'SELECT FROM job_runs WHERE job = ANY ($1::text[]) AND succeeded_at > $2';
    await eventually('the jobs ran on the new day', async () => {
      for (const request of this.atJump)
        for (const { url } of this.replicas) {
          const { status } = await send(url, request);
          if (status !== 200 && status !== 503) expect(`${request.path} while the clocks jump`, '200 or 503', status);
        }
      const ran = await this.postgres.query(ranSince, [JOBS, jumpedAt]);
      return (
        ran.length === JOBS.length && (await Promise.all(this.replicas.map(({ url }) => isHealthy(url)))).every(Boolean)
      );
    });
    this.atJump = [];
  }

  private async refreshDaily(): Promise<void> {
    if (this.daily) {
      const age = this.day - this.daily.since;
      const isOver = age >= SESSION_DAYS;
      const body = await this.expectStatus(
        'the refresh of every day',
        isOver ? 401 : 200,
        refreshOf(this.daily.tokens),
      );
      if (isOver) {
        this.daily = undefined;
      } else {
        this.daily.tokens = issuedTokens.parse(body);
        const { exp } = read(claims, this.daily.tokens.access_token, 1);
        const isWithin = exp <= this.daily.startedAt + SESSION_DAYS * DAY_SECONDS;
        expect('an access token ends with its session', true, isWithin);
      }
    }
    if (this.daily) return;
    const { login } = await this.register('daily');
    const tokens = await login();
    this.daily = { since: this.day, startedAt: read(claims, tokens.access_token, 1).iat + 1, tokens };
  }

  private async useSessions(): Promise<void> {
    const { login } = await this.register('user');
    const [kept, idle, forgotten, reused] = [await login(), await login(), await login(), await login()];
    const validation = bearer(kept);
    await this.expectStatus('an access token of today', 200, validation);
    this.atJump.push(validation);
    this.expectLater(1, 'an access token of yesterday', 200, validation);
    this.expectLater(ACCESS_TOKEN_DAYS + 1, 'an expired access token', 401, validation);
    this.expectLater(REFRESH_TOKEN_DAYS - 1, 'a refresh on the last day', 200, refreshOf(idle));
    this.expectLater(REFRESH_TOKEN_DAYS + 1, 'a refresh after the last day', 401, refreshOf(forgotten));
    const successor = issuedTokens.parse(await this.expectStatus('a refresh', 200, refreshOf(reused)));
    this.expectLater(1, 'the reuse of a refresh token of yesterday', 401, refreshOf(reused));
    this.expectLater(1, 'the session of a reused refresh token', 401, refreshOf(successor));
    const { sid } = read(claims, reused.access_token, 1);
    const session = 'SELECT FROM sessions WHERE id = $1';
    this.expectRowsLater(RETENTION_DAYS - 1, 'an ended session within its retention', 1, session, sid);
    this.expectRowsLater(RETENTION_DAYS + 2, 'an ended session after its retention', 0, session, sid);
    const { kid } = read(header, kept.access_token, 0);
    const { keys } = jwks.parse(
      await this.expectStatus('the JWKS', 200, { method: 'GET', path: '/.well-known/jwks.json' }),
    );
    expect(
      'the JWKS has the signing key',
      true,
      keys.some((key) => key.kid === kid),
    );
  }

  private async useNodes(): Promise<void> {
    const [kept, revoked, expiring] = [
      await this.issueNode(),
      await this.issueNode(),
      await this.issueNode({ expires_at: new Date(this.now.getTime() + 2.5 * DAY_MS).toISOString() }),
    ];
    await this.expectStatus('a node of today', 200, kept.validation);
    this.atJump.push(kept.validation);
    this.expectLater(30, 'a node after a month', 200, kept.validation);
    await this.expectStatus('a revocation', 204, this.asAdmin('DELETE', `/nodes/${revoked.id}`));
    await this.expectStatus('a revoked node', 401, revoked.validation);
    this.expectLater(7, 'a node that was revoked a week ago', 401, revoked.validation);
    const row = `SELECT FROM nodes WHERE id = $1::uuid AND revoked_at IS NOT NULL`;
    this.expectRowsLater(RETENTION_DAYS + 2, 'a revoked node within a year', 1, row, revoked.id);
    const event = `SELECT FROM audit_events WHERE subject = $1 AND event = 'admin.node.revoked'`;
    this.expectRowsLater(RETENTION_DAYS - 1, 'an audit row within its retention', 1, event, revoked.id);
    this.expectLater(2, 'a node key before its end', 200, expiring.validation);
    this.expectLater(3, 'a node key after its end', 401, expiring.validation);
  }

  private async useApps(): Promise<void> {
    const issue = this.asAdmin('POST', '/app-credentials', { caller: `caller-${this.day}`, target: 'recipes' });
    const { app_id, app_key } = issuedApp.parse(await this.expectStatus('a new app', 201, issue));
    const rotate = this.asAdmin('POST', `/app-credentials/${app_id}/rotate`, { overlap_hours: 36 });
    const rotated = issuedApp.parse(await this.expectStatus('the rotation of an app', 200, rotate));
    const validation = (key: string): Request => ({
      path: '/internal/validate-app',
      headers: { 'X-Platform-App-Id': app_id, 'X-Platform-App-Key': key },
    });
    await this.expectStatus('the new key of an app', 200, validation(rotated.app_key));
    this.expectLater(1, 'the old key of an app in the overlap', 200, validation(app_key));
    this.expectLater(2, 'the old key of an app after the overlap', 401, validation(app_key));
    this.expectLater(2, 'the new key of an app after the overlap', 200, validation(rotated.app_key));
  }

  private async useLinks(): Promise<void> {
    const { email } = await this.register('mail');
    const request = { path: '/api/v0/auth/password-reset', body: { email } };
    await this.expectStatus('the request for a link by mail', 202, request);
    const { id } = await this.register('link');
    const issue = this.asAdmin('POST', `/users/${id}/password-reset`);
    const { token } = issuedLink.parse(await this.expectStatus('a link', 201, issue));
    const path = '/api/v0/auth/password-reset/confirm';
    const confirm = { path, body: { token, new_password: `${PASSWORD}!` } };
    if (this.day % 2 === 0) await this.expectStatus('a link of today', 204, confirm);
    else this.expectLater(1, 'a link of yesterday', 400, confirm);
  }

  private async judgeRows(): Promise<void> {
    for (const [what, sql] of Object.entries(STRAYS)) expect(what, 0, (await this.postgres.query(sql)).length);
  }

  /** What is recorded while the processes jump, or before they have compared the clocks, is a finding (docs/audit.md). */
  private async judgeSeals(): Promise<void> {
    const { MASTER_KEY } = this.secrets;
    const findings = verifyAudit({ DATABASE_URL: this.postgres.url, MASTER_KEY });
    const atJump = await this.postgres.query(RECORDED_AT_JUMP, [findings.map(({ row }) => row), this.jumps]);
    const ids = recorded.parse(atJump).map(({ id }) => id);
    const others = findings.filter(({ kind, row }) => kind !== 'inserted' || row === undefined || !ids.includes(row));
    expect('the findings of audit verify', '', others.map((finding) => JSON.stringify(finding)).join('\n'));
  }

  private async register(name: string) {
    const email = `${name}-${this.day}@example.org`;
    const credentials = { email, password: PASSWORD };
    const request = { path: '/api/v0/auth/register', body: credentials };
    const { id } = registered.parse(await this.expectStatus('a registration', 201, request));
    const login = async (): Promise<Tokens> =>
      issuedTokens.parse(await this.expectStatus('a login', 200, { path: '/api/v0/auth/login', body: credentials }));
    return { id, email, login };
  }

  private async issueNode(more: object = {}) {
    const registration = { household_id: '0197d5a0-0000-7000-8000-000000000001', room: 'kitchen', name: 'speaker' };
    const issue = this.asAdmin('POST', '/nodes', { ...registration, ...more });
    const { node_id, api_key } = issuedNode.parse(await this.expectStatus('a new node', 201, issue));
    const headers = { 'X-API-Key': `${node_id}:${api_key}` };
    return { id: node_id, validation: { path: '/internal/validate-node', headers } };
  }

  private asAdmin(method: string, path: string, body?: object): Request {
    return { method, path: `/api/v0/admin${path}`, headers: { 'X-Admin-Key': this.secrets.ADMIN_API_KEY }, body };
  }

  private expectLater(afterDays: number, what: string, status: number, request: Request): void {
    this.due.push({
      day: this.day + afterDays,
      judge: async () => {
        await this.expectStatus(what, status, request);
      },
    });
  }

  private expectRowsLater(afterDays: number, what: string, rows: number, sql: string, id: string): void {
    this.due.push({
      day: this.day + afterDays,
      judge: async () => expect(what, rows, (await this.postgres.query(sql, [id])).length),
    });
  }

  /** Asks one replica after the other. @returns the body */
  private async expectStatus(what: string, expected: number, request: Request): Promise<unknown> {
    const { status, body } = await untilVerdict(() => {
      this.asked += 1;
      return send(this.replicas.at(this.asked % REPLICAS)?.url ?? '', request);
    });
    expect(what, expected, status);
    return body;
  }
}

const checks = new Checks();

function expect(what: string, expected: number | string | boolean, found: number | string | boolean): void {
  if (found === expected) checks.add({ passed: 1, failed: 0 });
  else checks.note(what, false, `expected ${expected}, found ${found}`);
}

function refreshOf({ refresh_token }: Tokens): Request {
  return { path: '/api/v0/auth/refresh', body: { refresh_token } };
}

function bearer({ access_token }: Tokens): Request {
  return { path: '/internal/validate-user', headers: { Authorization: `Bearer ${access_token}` } };
}

function read<Schema extends z.ZodType>(schema: Schema, jwt: string, part: 0 | 1): z.infer<Schema> {
  return schema.parse(JSON.parse(Buffer.from(jwt.split('.')[part] ?? '', 'base64url').toString()));
}

await checks.around(async (cleanup) => {
  const obstacle = whyNoFaketime();
  if (obstacle !== undefined) throw new Error(obstacle);
  const calendar = await Calendar.open(cleanup);
  for (let day = 1; day <= days; day += 1) {
    await calendar.playDay();
    console.log(`day ${day} of ${days}: ${calendar.now.toISOString().slice(0, 10)}`);
  }
  calendar.judgeLogs();
  closeConnections();
});
