import { Client } from 'pg';
import { InvalidEnvironmentError, parseEnvironment } from '../../src/config/environment.js';
import { SECRET_KEY } from '../support/settings.js';
import { createTestDatabase, type TestDatabase } from '../support/test-database.js';

const refusalOf = (url: string): string => {
  try {
    parseEnvironment({ SECRET_KEY, DATABASE_URL: url });
    return 'accepted';
  } catch (error) {
    if (error instanceof InvalidEnvironmentError) return error.message;
    throw error;
  }
};

describe('DATABASE_URL', () => {
  it.each([
    'postgresql://u:hunter2@db1:5432,db2:5432/auth',
    'postgresql://u:hunter2@db1,db2/auth',
    'postgres://db1,db2',
    'postgresql://u:hunter2@[::1]:5432,[::2]:5432/auth?sslmode=disable',
    'postgresql://u:hunter2@/auth?host=db1,db2',
    'postgresql://u:hunter2@db1/auth?port=5432,5433',
  ])('with several hosts is refused with what to use instead: %s', (url) => {
    const refusal = refusalOf(url);
    expect(refusal).toMatch(/DATABASE_URL names several hosts.*HAProxy.*PgBouncer in session mode.*deploy\/ha/s);
    expect(refusal).not.toContain('hunter2');
  });

  it.each([
    ['target_session_attrs=read-write', 'primary'],
    ['connect_timeout=3', 'fixed timeout'],
    ['statement_timeout=0', 'fixed timeout'],
    ['query_timeout=0', 'fixed timeout'],
    ['keepalives_idle=10', 'keepalive'],
    ['channel_binding=require', 'verify-full'],
    ['dbname=auth', 'behind the host'],
    ['hostaddr=127.0.0.1', 'as the host'],
    ['gssencmode=prefer', 'GSSAPI'],
    ['load_balance_hosts=random', 'primary'],
  ])(
    'with the parameter %s, which the driver ignores or lets override the service, is refused by name',
    (parameter, instead) => {
      const [name = ''] = parameter.split('=');
      const refusal = refusalOf(`postgresql://u:hunter2@db/auth?sslmode=verify-full&${parameter}`);
      expect(refusal).toContain(`DATABASE_URL has ${name}`);
      expect(refusal).toContain(instead);
      expect(refusal).not.toContain('hunter2');
    },
  );

  it('with an unknown parameter is refused without repeating it, because it may be part of a password', () => {
    const refusal = refusalOf('postgresql://user:12?hunter2@db/auth');
    expect(refusal).toContain('DATABASE_URL has a parameter that this service does not know');
    expect(refusal).not.toContain('hunter2');
  });

  it.each([
    ['sslmode=disable&sslmode=verify-full', 'sslmode more than once'],
    ['sslmode=allow', 'an sslmode other than'],
    ['sslmode=disable#hunter2', 'contains a #'],
    ['ssl=false', 'has an ssl that the driver does not understand: use sslmode'],
  ])('with ?%s is refused', (query, reason) => {
    const refusal = refusalOf(`postgresql://u@db/auth?${query}`);
    expect(refusal).toContain(reason);
    expect(refusal).not.toContain('hunter2');
  });

  it.each([
    'postgresql://u:a,b%40c@db/auth',
    'postgresql://u:p@[::1]:5432/auth?sslmode=disable',
    'postgresql:///auth?host=/var/run/postgresql',
    'postgresql://u:p@localhost:5433/auth?host=/var/run/postgresql',
    'postgresql://u:p@%2Fvar%2Frun%2Fpostgresql:5433/auth',
    'postgresql://u@db/auth?ssl=0',
    'postgres://u@db/auth?sslmode=verify-full&sslrootcert=/etc/ca.pem&application_name=auth&options=-c%20work_mem%3D8MB',
  ])('is accepted: %s', (url) => {
    expect(refusalOf(url)).toBe('accepted');
  });

  describe('that is accepted', () => {
    let database: TestDatabase;
    beforeAll(async () => {
      database = await createTestDatabase();
    });
    afterAll(() => database.drop());

    it.each([
      ['application_name=from-the-url', 'application_name', 'from-the-url'],
      ['fallback_application_name=from-the-url', 'application_name', 'from-the-url'],
      ['options=-c%20search_path%3Dpg_catalog', 'search_path', 'pg_catalog'],
    ])('is honoured by the driver: %s', async (parameter, setting, expected) => {
      const client = new Client({ connectionString: `${database.url}?${parameter}` });
      await client.connect();
      const { rows } = await client.query(`SELECT current_setting($1) AS value`, [setting]);
      expect(rows).toEqual([{ value: expected }]);
      await client.end();
    });
  });
});
