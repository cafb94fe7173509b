import { randomUUID } from 'node:crypto';
import { Client } from 'pg';
import { AuditJob, PurgeJob } from '../../src/domain/maintenance/jobs.js';
import { Auditor, insertion, seal } from '../domain/audit/auditor.js';
import { oldMonth, partitionsOf } from '../domain/audit/months.js';
import { recorded } from '../domain/audit/record.js';
import { Cli } from '../support/cli.js';
import { fromRoot } from '../support/from-root.js';
import { createTwoRoles, type TwoRoles } from '../support/roles.js';
import { endAll, ServiceProcess } from '../support/service-process.js';
import { ADMIN_KEY, SECRET_KEY } from '../support/settings.js';
import { TestApp } from '../support/test-app.js';

const SCENARIO_MS = 240_000;

describe('a service whose role does not own its tables', () => {
  let roles: TwoRoles;

  const asOwner = (): Cli => new Cli('http://127.0.0.1:9', { DATABASE_URL: roles.ownerUrl });
  const migrate = (...parameters: string[]): Promise<string> => asOwner().ok('migrate', ...parameters);

  /** Runs SQL as the service's role, without the service. */
  const withRole = async <Result>(work: (client: Client) => Promise<Result>): Promise<Result> => {
    const client = new Client({ connectionString: roles.database.url });
    await client.connect();
    try {
      return await work(client);
    } finally {
      await client.end();
    }
  };

  beforeEach(async () => {
    roles = await createTwoRoles();
  });

  afterEach(async () => {
    await endAll();
    await roles.drop();
  });

  it(
    'refuses to start until the owner has migrated, and prints the command',
    async () => {
      const variables = {
        NODE_ENV: 'production',
        DATABASE_URL: roles.database.url,
        SECRET_KEY,
        ADMIN_API_KEY: ADMIN_KEY,
      };
      const early = await ServiceProcess.spawn(variables);
      expect(await early.exited()).toBe(1);
      expect(early.output).toContain('platform-auth migrate --grant-to');
      const cli = new Cli('http://127.0.0.1:9', { DATABASE_URL: roles.database.url });
      const init = ['init', '--map', fromRoot('platform.yaml'), '--env-dir', cli.path('env'), '--json'];
      const advice = expect.stringContaining('platform-auth migrate --grant-to') as string;
      expect(JSON.parse(await cli.fails(...init))).toEqual({ code: 'schema_outdated', message: advice });
      expect(await migrate('--grant-to', roles.serviceRole)).toContain(
        `Granted the service's privileges to: ${roles.serviceRole}`,
      );
      expect((await cli.run(...init)).code).toBe(0);
      const service = await ServiceProcess.start(variables);
      expect(await service.stop()).toBe(0);
      expect(service.output).toContain('"signal":"SIGTERM","msg":"stopping"');
    },
    SCENARIO_MS,
  );

  it(
    'records and seals acts, creates monthly partitions, and drops old ones',
    async () => {
      await migrate('--grant-to', roles.serviceRole);
      const app = await TestApp.start({ database: roles.database });
      const alice = await app.user();
      const { refresh_token } = await alice.logsIn();
      await app.login(alice.email, 'wrong password').expect(401);
      await app.refresh(refresh_token).expect(200);
      const node = await app.node();
      await app.validateNode(node.header).expect(200);
      await app.admin.post(`/nodes/${node.nodeId}/rotate`).expect(200);
      await app.admin.delete(`/nodes/${node.nodeId}`).expect(204);
      await app.validateApp((await app.service()).headers, { target: 'recipes' }).expect(200);
      await app.admin.delete(`/users/${alice.id}`).expect(204);
      expect((await recorded(app)).length).toBeGreaterThan(6);

      const old = await oldMonth(roles.database, 30);
      await roles.database.query(`ALTER TABLE ${old} OWNER TO ${roles.ownerRole}`);
      await roles.database.query(insertion(randomUUID(), `now() + interval '300 days'`));
      await roles.database.query(`UPDATE credential_changes SET at = now() - interval '3 days'`);
      expect(await seal(app)).toBeGreaterThan(6);
      const before = await partitionsOf(roles.database);
      await app.nest.get(AuditJob).maintainAuditLog();
      await app.nest.get(PurgeJob).purgeExpired();
      const after = await partitionsOf(roles.database);
      expect(before.filter((name) => !after.includes(name))).toEqual([old]);
      expect(after.filter((name) => !before.includes(name))).toHaveLength(2);
      const messages = app.log.lines.map(({ message }) => message);
      for (const failure of ['audit_job_failed', 'purge_failed', 'audit_seal_failed'])
        expect(messages).not.toContain(failure);
      const auditor = new Auditor(roles.database);
      const report = await auditor.verify();
      expect(report.findings.filter(({ kind }) => kind !== 'inserted')).toEqual([]);
      expect(report.dropped_rows).toBe(1);
      await app.stop();
    },
    SCENARIO_MS,
  );

  it(
    'cannot change, drop or backdate audit rows, or disable a trigger',
    async () => {
      const cli = asOwner().with({ AUDIT_RETENTION_DAYS: '100' });
      await cli.ok('migrate', '--grant-to', roles.serviceRole);
      const app = await TestApp.start({ database: roles.database });
      await app.user();
      await seal(app);
      const young = await oldMonth(roles.database, 2);
      const state = () => roles.database.query('SELECT * FROM audit_events ORDER BY time, id');
      const before = await state();
      const refused = [
        ...['audit_events', young, 'audit_seals', 'audit_seal_entries', 'audit_settings', 'migrations'].flatMap(
          (table) => [
            `DELETE FROM ${table}`,
            `TRUNCATE ${table}`,
            `DROP TABLE ${table}`,
            `ALTER TABLE ${table} DISABLE TRIGGER ALL`,
            `ALTER TABLE ${table} ADD COLUMN more text`,
          ],
        ),
        `UPDATE audit_events SET event = 'x'`,
        `UPDATE ${young} SET event = 'x'`,
        `UPDATE audit_seals SET content = ''`,
        'UPDATE audit_settings SET retention_floor_days = 1',
        `ALTER TABLE audit_events DETACH PARTITION ${young}`,
        `SELECT audit_events_add_month('2001-01-01')`,
        insertion(randomUUID(), 'now()', { xid: `'5'` }),
        insertion(randomUUID(), 'now()', { recorded_at: 'now()' }),
        insertion(randomUUID(), 'now()', { epoch: '0' }),
        'SET session_replication_role = replica',
        `SET platform_auth.is_folding = 'on'; DELETE FROM audit_seals`,
        'CREATE TABLE of_its_own ()',
        `SET ROLE ${roles.ownerRole}`,
      ];
      await withRole(async (client) => {
        for (const statement of refused)
          await expect(client.query(statement).then(() => statement)).rejects.toMatchObject({ code: '42501' });
        for (const days of ['NULL', '0', '-1'])
          await expect(client.query(`SELECT audit_events_drop_month(${days})`)).rejects.toMatchObject({
            code: '22023',
          });
        await expect(client.query('SELECT audit_seals_fold()')).rejects.toMatchObject({ code: '55000' });
        const { rows } = await client.query('SELECT audit_events_drop_month(1) AS dropped');
        expect(rows).toEqual([{ dropped: null }]);
      });
      expect(await state()).toEqual(before);
      expect(await partitionsOf(roles.database)).toContain(young);
      await app.stop();
    },
    SCENARIO_MS,
  );

  it(
    'works also when the owner is a superuser, as in compose.yaml',
    async () => {
      await new Cli('http://127.0.0.1:9', { DATABASE_URL: roles.superuserUrl }).ok(
        'migrate',
        '--grant-to',
        roles.serviceRole,
      );
      // On a machine that stalls, the change feed would warn.
      const app = await TestApp.start({ database: roles.database, variables: { REVOCATION_LEASE_MS: '0' } });
      await (await app.user()).logsIn();
      expect(await seal(app)).toBe(2);
      await app.nest.get(AuditJob).maintainAuditLog();
      expect(app.log.lines.filter(({ level }) => level === 'warn')).toEqual([]);
      await app.stop();
    },
    SCENARIO_MS,
  );

  it(
    'cannot create objects that the functions of the owner would call, as PUBLIC can before PostgreSQL 15',
    async () => {
      const mayCreate = async () => {
        const statement = `SELECT has_schema_privilege('${roles.serviceRole}', 'public', 'CREATE') AS may`;
        return (await roles.database.query<{ may: boolean }>(statement))[0]?.may;
      };
      await roles.database.query('GRANT CREATE ON SCHEMA public TO PUBLIC');
      await migrate('--grant-to', roles.serviceRole);
      expect(await mayCreate()).toBe(false);

      await roles.database.query('ALTER SCHEMA public OWNER TO CURRENT_USER');
      await roles.database.query('GRANT CREATE ON SCHEMA public TO PUBLIC');
      expect(await asOwner().fails('migrate', '--grant-to', roles.serviceRole)).toContain('Revoke CREATE');
    },
    SCENARIO_MS,
  );

  it(
    'is not granted to a role that owns the tables, is a superuser, or does not exist',
    async () => {
      const superuser = (await roles.database.query<{ name: string }>('SELECT current_user AS name'))[0]!.name;
      expect(await asOwner().fails('migrate', '--grant-to', roles.ownerRole)).toContain('owns the audit log');
      expect(await asOwner().fails('migrate', '--grant-to', superuser)).toContain('is a superuser');
      expect(await asOwner().fails('migrate', '--grant-to', 'missing')).toContain('does not exist');
    },
    SCENARIO_MS,
  );
});
