import { DataSource } from 'typeorm';
import { Database } from '../../src/foundation/database/database.js';
import type { RequestPool } from '../../src/foundation/database/request-pool.js';

type Send = (sql: string, values?: unknown[]) => Promise<unknown>;
/** Sends a statement; `this` sends another one on the same connection or pool. */
export type Query = (this: Send, sql: string, values?: unknown[]) => Promise<unknown>;

/** Runs work while the queries of entity managers, the data source and hot statements go through another function. */
export async function withWrappedQueries<Result>(
  wrap: (query: Query) => Query,
  work: () => Promise<Result>,
): Promise<Result> {
  const wrapped = wrap(function (sql, values) {
    return this(sql, values);
  });
  // oxlint-disable-next-line typescript/unbound-method -- called with its source below
  const { query } = DataSource.prototype;
  const ofSource = jest.spyOn(DataSource.prototype, 'query');
  ofSource.mockImplementation(function (this: DataSource, sql, values, runner) {
    const send: Send = (text, all) => query.call(this, text, all, runner);
    return wrapped.call(send, sql, values as unknown[] | undefined);
  });
  const ofDatabase = jest.spyOn(Database.prototype, 'rows');
  // Without the name, under which a connection has prepared the right statement.
  ofDatabase.mockImplementation(function (this: Database, { text: hot }, hotValues) {
    const pool = Reflect.get(this, 'master') as RequestPool;
    const send: Send = async (text, values) => (await pool.query<object>(text, values)).rows;
    return wrapped.call(send, hot, hotValues) as never;
  });
  try {
    return await work();
  } finally {
    ofSource.mockRestore();
    ofDatabase.mockRestore();
  }
}
