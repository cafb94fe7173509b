import { applyDecorators, type Type } from '@nestjs/common';
import { ApiProperty, ApiPropertyOptional } from '@nestjs/swagger';
import { IsIn, MaxLength } from 'class-validator';
import { IfSent, QueryNumberField } from '../common/fields.js';
import { isId } from '../common/ids.js';
import { type ProblemException, createFieldProblem } from '../problems/problems.js';
import type { Page, PageOrder, PageRequest } from '../database/page.js';

const DEFAULT_LIMIT = 50;
const MAX_LIMIT = 100;
const MAX_CURSOR_LENGTH = 100;
const CURSOR_DETAIL = 'must be the next_cursor of an earlier page';
const NULLABLE_CURSOR = { type: String, nullable: true, example: null } as const;

export class PageQuery {
  @QueryNumberField(MAX_LIMIT, { default: DEFAULT_LIMIT }) limit?: number;

  @ApiPropertyOptional({ type: String, maxLength: MAX_CURSOR_LENGTH, description: 'next_cursor of the previous page' })
  @IfSent()
  @MaxLength(MAX_CURSOR_LENGTH, { message: CURSOR_DETAIL })
  cursor?: string;
}

export function getPageLimit({ limit = DEFAULT_LIMIT }: PageQuery): number {
  return limit;
}

/** By creation: the ids of most tables begin with their moment (UUIDv7). */
export const CREATION_ORDER = { created_at: 'id' } as const;

export const DESCENDING = '_desc';

/** The properties of a row that have an index, by their names in the API. */
type Orders = Readonly<Record<string, string>>;

/** The order of a list, for {@link toPageRequest}. */
export function SortField(enumName: string, orders: Orders = CREATION_ORDER): PropertyDecorator {
  const values = Object.keys(orders).flatMap((name) => [name, name + DESCENDING]);
  const description = 'the order of the list, which has to be the same for all of its pages';
  return applyDecorators(
    ApiPropertyOptional({ enum: values, enumName, description, example: values[0] }),
    IfSent(),
    IsIn(values, { message: `must be one of ${values.join(', ')}` }),
  );
}

interface SortedPageQuery extends PageQuery {
  sort?: string;
}

/** @throws {ProblemException} validation_failed for a cursor that this service did not create */
export function toPageRequest(query: SortedPageQuery, orders: Orders = CREATION_ORDER): PageRequest {
  const after = query.cursor === undefined ? undefined : decodeCursor(query.cursor);
  return {
    limit: getPageLimit(query),
    after,
    order: query.sort === undefined ? undefined : toOrder(query.sort, orders),
  };
}

function toOrder(sort: string, orders: Orders): PageOrder {
  const isDescending = sort.endsWith(DESCENDING);
  return { property: orders[isDescending ? sort.slice(0, -DESCENDING.length) : sort] ?? 'id', isDescending };
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
