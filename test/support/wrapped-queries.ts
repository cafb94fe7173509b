import { EntityManager } from 'typeorm';

export type Query = (this: EntityManager, sql: string, values?: unknown[]) => Promise<unknown>;

/** Runs work while the queries of transactions and repositories go through another function. */
export async function withWrappedQueries<Result>(
  wrap: (query: Query) => Query,
  work: () => Promise<Result>,
): Promise<Result> {
  const query = Reflect.get(EntityManager.prototype, 'query') as Query;
  const spy = jest.spyOn(EntityManager.prototype, 'query').mockImplementation(wrap(query) as never);
  try {
    return await work();
  } finally {
    spy.mockRestore();
  }
}
