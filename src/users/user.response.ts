import { ApiProperty } from '@nestjs/swagger';
import type { Page } from '../common/page.js';
import type { User } from './user.entity.js';

export class UserResponse {
  @ApiProperty({ type: String, format: 'uuid', example: '01985f4e-7c3a-7b52-9d1e-2f6a8c4b0d11' })
  id!: string;

  @ApiProperty({ type: String, format: 'email', example: 'alice@example.org' })
  email!: string;

  @ApiProperty({ example: true })
  is_active!: boolean;

  @ApiProperty({ type: String, format: 'date-time', example: '2026-11-21T09:00:00.000Z' })
  created_at!: string;

  @ApiProperty({ type: String, format: 'date-time', example: '2026-11-21T09:00:00.000Z' })
  updated_at!: string;

  static from(user: User): UserResponse {
    return {
      id: user.id,
      email: user.email,
      is_active: user.isActive,
      created_at: user.createdAt.toISOString(),
      updated_at: user.updatedAt.toISOString(),
    };
  }
}

export class UserPageResponse {
  @ApiProperty({ type: [UserResponse] })
  items!: UserResponse[];

  @ApiProperty({
    type: String,
    nullable: true,
    description: 'cursor of the next page; null on the last',
    example: null,
  })
  next_cursor!: string | null;

  static from(page: Page<User>): UserPageResponse {
    return { items: page.items.map((user) => UserResponse.from(user)), next_cursor: page.nextCursor };
  }
}
