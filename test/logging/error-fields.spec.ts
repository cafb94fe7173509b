import { Client } from 'pg';
import { DataSource } from 'typeorm';
import { toErrorFields } from '../../src/logging/log-line.js';
import { createTestDatabase, type TestDatabase } from '../support/test-database.js';

const failureOf = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => undefined,
    (error: unknown) => error,
  );

describe('the error of a log line', () => {
  let database: TestDatabase;
  const CANARY = 'canary-in-a-value';

  beforeAll(async () => {
    database = await createTestDatabase({ isEmpty: true });
  });
  afterAll(() => database.drop());

  it('has the SQLSTATE of a statement that PostgreSQL cancelled, without its message', async () => {
    const source = await new DataSource({ type: 'postgres', url: database.url }).initialize();
    const cancelled = await failureOf(
      source.transaction(async (transaction) => {
        await transaction.query('SET LOCAL statement_timeout = 1');
        await transaction.query(`SELECT pg_sleep(60), '${CANARY}'`);
      }),
    );
    const invalid = await failureOf(source.query('SELECT $1::integer', [CANARY]));
    await source.destroy();
    expect(toErrorFields(cancelled)).toMatchObject({ name: 'QueryFailedError', code: '57014' });
    expect(toErrorFields(new Error('outer', { cause: cancelled }))).toMatchObject({ name: 'Error', code: '57014' });
    expect(toErrorFields(invalid)).toMatchObject({ code: '22P02' });
    expect(JSON.stringify([toErrorFields(cancelled), toErrorFields(invalid)])).not.toContain(CANARY);
  });

  it('names a timeout of the driver, which has no code', async () => {
    const client = new Client({ connectionString: database.url, query_timeout: 1 });
    await client.connect();
    const unanswered = await failureOf(client.query('SELECT pg_sleep(60)'));
    await client.end();
    expect(toErrorFields(unanswered)).toMatchObject({ name: 'Error', code: 'STATEMENT_TIMEOUT' });
  });

  it.each([
    ['timeout exceeded when trying to connect', 'POOL_TIMEOUT'],
    ['Connection terminated due to connection timeout', 'CONNECT_TIMEOUT'],
    ['Connection terminated unexpectedly', 'CONNECTION_TERMINATED'],
    ['of another kind', undefined],
  ])('%s: the code is %s', (message, code) => {
    expect(toErrorFields(new Error(message)).code).toBe(code);
  });

  it('has the code of the first address of a host that cannot be reached', () => {
    const refused = Object.assign(new Error('refused'), { code: 'ECONNREFUSED' });
    expect(toErrorFields(new AggregateError([refused, refused])).code).toBe('ECONNREFUSED');
  });
});
