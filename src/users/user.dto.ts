import { ApiProperty } from '@nestjs/swagger';
import { createPageResponse } from '../http/page.js';
import type { User } from './user.entity.js';
import type { Account } from './users.service.js';

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

  static from(user: Account): UserResponse {
    return {
      id: user.id,
      email: user.email,
      is_active: user.isActive,
      created_at: user.createdAt.toISOString(),
      updated_at: user.updatedAt.toISOString(),
    };
  }
}

export class UserPageResponse extends createPageResponse<User, UserResponse>(UserResponse) {}
