import type { Type } from '@nestjs/common';
import { ApiProperty, ApiPropertyOptional } from '@nestjs/swagger';
import { Transform } from 'class-transformer';
import { IsInt, IsOptional, Max, MaxLength, Min } from 'class-validator';
import { isId } from '../common/ids.js';
import { type ProblemException, createFieldProblem } from '../problems/problems.js';
import type { Page, PageRequest } from '../database/page.js';

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

export function getPageLimit({ limit = DEFAULT_LIMIT }: PageQuery): number {
  return limit;
}

/** @throws {ProblemException} validation_failed for a cursor that this service did not create */
export function toPageRequest(query: PageQuery): PageRequest {
  return { limit: getPageLimit(query), after: query.cursor === undefined ? undefined : decodeCursor(query.cursor) };
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
