import { And, MoreThan, Raw, type FindManyOptions, type FindOperator, type Repository } from 'typeorm';

export interface Page<T> {
  readonly items: T[];
  readonly nextCursor: string | null;
}

export interface PageRequest {
  readonly limit: number;
  readonly after: string | undefined;
}

type Conditions<Row> = { readonly [Name in keyof Row]?: Row[Name] | FindOperator<Row[Name]> | undefined };

/** A condition in SQL over the columns of the row, with its named values. */
export type Filter = FindOperator<string>;

export function toFilter(sql: string, values: Readonly<Record<string, unknown>> = {}): Filter {
  return Raw(() => `(${sql})`, values) as Filter;
}

/** @returns a LIKE pattern for texts that contain this part, whose own wildcards are escaped */
export function toPattern(part: string): string {
  return `%${part.replace(/[\\%_]/g, '\\$&')}%`;
}

/** Reads a page of the matching rows in the order of their ids. Undefined conditions are ignored. */
export async function findPage<Row extends { id: string }>(
  repository: Repository<Row>,
  { after, limit }: PageRequest,
  conditions: Conditions<Row>,
  filters: readonly Filter[] = [],
): Promise<Page<Row>> {
  const ofId = after === undefined ? filters : [MoreThan(after), ...filters];
  const all = { ...conditions, id: ofId.length > 0 ? And(...ofId) : undefined };
  const where = Object.fromEntries(Object.entries(all).filter(([, condition]) => condition !== undefined));
  // The extra row tells whether there is another page.
  const options = { where, order: { id: 'ASC' }, take: limit + 1 } as FindManyOptions<Row>;
  return cutPage(await repository.find(options), limit, ({ id }) => id);
}

/** @param rows in the order of the ids, with one more than the page has if another one follows */
export function cutPage<Row>(rows: readonly Row[], limit: number, getId: (row: Row) => string): Page<Row> {
  const items = rows.slice(0, limit);
  const last = items.at(-1);
  return { items, nextCursor: rows.length > limit && last ? Buffer.from(getId(last)).toString('base64url') : null };
}
