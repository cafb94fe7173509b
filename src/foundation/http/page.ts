import type { Type } from '@nestjs/common';
import { ApiProperty, ApiPropertyOptional } from '@nestjs/swagger';
import { Transform } from 'class-transformer';
import { IsInt, IsOptional, Max, MaxLength, Min } from 'class-validator';
import { And, MoreThan, Raw, type FindManyOptions, type FindOperator, type Repository } from 'typeorm';
import { isId } from '../common/ids.js';
import { type ProblemException, createFieldProblem } from '../problems/problems.js';

const DEFAULT_LIMIT = 50;
const MAX_LIMIT = 100;
const MAX_CURSOR_LENGTH = 100;
const LIMIT_RULE = { message: `must be a whole number from 1 to ${MAX_LIMIT}` };
const CURSOR_DETAIL = 'must be the next_cursor of an earlier page';

const NULLABLE_CURSOR = { type: String, nullable: true, example: null } as const;

export class PageQuery {
  @ApiPropertyOptional({ type: 'integer', minimum: 1, maximum: MAX_LIMIT, default: DEFAULT_LIMIT })
  @IsOptional()
  @Transform(({ value }: { value: unknown }) =>
    typeof value === 'string' && /^\d{1,4}$/.test(value) ? Number(value) : value,
  )
  @IsInt(LIMIT_RULE)
  @Min(1, LIMIT_RULE)
  @Max(MAX_LIMIT, LIMIT_RULE)
  limit?: number;

  @ApiPropertyOptional({ type: String, maxLength: MAX_CURSOR_LENGTH, description: 'next_cursor of the previous page' })
  @IsOptional()
  @MaxLength(MAX_CURSOR_LENGTH, { message: CURSOR_DETAIL })
  cursor?: string;
}

export interface Page<T> {
  readonly items: T[];
  readonly nextCursor: string | null;
}

export interface PageRequest {
  readonly limit: number;
  /** Only rows whose id sorts after this one. */
  readonly after: string | undefined;
}

export function getPageLimit({ limit = DEFAULT_LIMIT }: PageQuery): number {
  return limit;
}

/** @throws {ProblemException} validation_failed for a cursor that this service did not create */
export function toPageRequest(query: PageQuery): PageRequest {
  return { limit: getPageLimit(query), after: query.cursor === undefined ? undefined : decodeCursor(query.cursor) };
}

type Conditions<Row> = { readonly [Name in keyof Row]?: Row[Name] | FindOperator<Row[Name]> | undefined };

/** SQL over the columns of the row, with the values that it names as `:value`. */
export type Filter = FindOperator<string>;

export function toFilter(sql: string, values: Readonly<Record<string, unknown>> = {}): Filter {
  return Raw(() => `(${sql})`, values) as Filter;
}

/** @returns a pattern of LIKE for texts that contain this one; its own wildcards stand for themselves */
export function toPattern(part: string): string {
  return `%${part.replace(/[\\%_]/g, '\\$&')}%`;
}

/** Reads a page of the rows that match, in the order of their ids. Undefined conditions are left out. */
export async function findPage<Row extends { id: string }>(
  repository: Repository<Row>,
  { after, limit }: PageRequest,
  conditions: Conditions<Row>,
  filters: readonly Filter[] = [],
): Promise<Page<Row>> {
  const ofId = after === undefined ? filters : [MoreThan(after), ...filters];
  const all = { ...conditions, id: ofId.length > 0 ? And(...ofId) : undefined };
  const where = Object.fromEntries(Object.entries(all).filter(([, condition]) => condition !== undefined));
  // The extra row shows that there is another page.
  const options = { where, order: { id: 'ASC' }, take: limit + 1 } as FindManyOptions<Row>;
  const rows = await repository.find(options);
  const items = rows.slice(0, limit);
  const last = items.at(-1);
  return { items, nextCursor: rows.length > limit && last ? Buffer.from(last.id).toString('base64url') : null };
}

function decodeCursor(cursor: unknown): string {
  const id = typeof cursor === 'string' ? Buffer.from(cursor, 'base64url').toString('latin1') : '';
  if (isId(id)) return id;
  throw createCursorProblem();
}

export function createCursorProblem(): ProblemException {
  return createFieldProblem('/cursor', CURSOR_DETAIL);
}

export function createPageResponse<Row, Item>(itemClass: Type<Item> & { from(row: Row): Item }) {
  abstract class PageResponse {
    @ApiProperty({ type: [itemClass], maxItems: MAX_LIMIT })
    items!: Item[];

    @ApiProperty({ ...NULLABLE_CURSOR, description: 'cursor of the next page; null on the last' })
    next_cursor!: string | null;

    static from(page: Page<Row>): PageResponse {
      return { items: page.items.map((row) => itemClass.from(row)), next_cursor: page.nextCursor };
    }
  }
  return PageResponse;
}
