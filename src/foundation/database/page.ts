import {
  And,
  LessThan,
  MoreThan,
  Raw,
  type FindManyOptions,
  type FindOperator,
  type FindOptionsWhere,
  type Repository,
} from 'typeorm';

export interface Page<T> {
  readonly items: T[];
  readonly nextCursor: string | null;
}

/** The row after which a page begins was deleted meanwhile, so that its place in the order is not known any more. */
export class LostCursorError extends Error {
  override readonly name = 'LostCursorError';
}

/** The order of a list by a property that has an index. Rows of one value are in the order of their ids. */
export interface PageOrder {
  readonly property: string;
  readonly isDescending: boolean;
}

export interface PageRequest {
  readonly limit: number;
  /** The id of the last row of the page before. */
  readonly after: string | undefined;
  /** Undefined for the order of the ids. */
  readonly order?: PageOrder | undefined;
}

const BY_ID: PageOrder = { property: 'id', isDescending: false };

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

/** Selects the rows after one, whose value is read here, so that a cursor is an id and contains no e-mail address. */
function buildIsAfter<Row extends { id: string }>(
  { metadata }: Repository<Row>,
  after: string,
  { property, isDescending }: PageOrder,
): Filter {
  if (property === 'id') return isDescending ? LessThan(after) : MoreThan(after);
  const columns = `${metadata.findColumnWithPropertyName(property)?.databaseName}, id`;
  const last = `SELECT ${columns} FROM ${metadata.tableName} WHERE id = :after`;
  return toFilter(`(${columns}) ${isDescending ? '<' : '>'} (${last})`, { after });
}

/**
 * Reads a page of the matching rows. Undefined conditions are ignored.
 * @throws {LostCursorError} when the order needs the last row of the page before, which was deleted
 */
export async function findPage<Row extends { id: string }>(
  repository: Repository<Row>,
  { after, limit, order = BY_ID }: PageRequest,
  conditions: Conditions<Row>,
  filters: readonly Filter[] = [],
): Promise<Page<Row>> {
  const ofId = after === undefined ? filters : [buildIsAfter(repository, after, order), ...filters];
  const all = { ...conditions, id: ofId.length > 0 ? And(...ofId) : undefined };
  const where = Object.fromEntries(Object.entries(all).filter(([, condition]) => condition !== undefined));
  // The extra row tells whether there is another page.
  const direction = order.isDescending ? 'DESC' : 'ASC';
  const sorted = { [order.property]: direction, id: direction };
  const options = { where, order: sorted, take: limit + 1 } as FindManyOptions<Row>;
  const rows = await repository.find(options);
  const needsRow = rows.length === 0 && after !== undefined && order.property !== 'id';
  if (needsRow && !(await repository.existsBy({ id: after } as FindOptionsWhere<Row>)))
    throw new LostCursorError('is of a row that was deleted meanwhile, so the list has to be read from its beginning');
  return cutPage(rows, limit, ({ id }) => id);
}

/** @param rows in the order of the ids, with one more than the page has if another one follows */
export function cutPage<Row>(rows: readonly Row[], limit: number, getId: (row: Row) => string): Page<Row> {
  const items = rows.slice(0, limit);
  const last = items.at(-1);
  return { items, nextCursor: rows.length > limit && last ? Buffer.from(getId(last)).toString('base64url') : null };
}
