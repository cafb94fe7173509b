import { Body, Post } from '@nestjs/common';
import { ApiProperty } from '@nestjs/swagger';
import { UsersService, type Account } from '../../domain/users/users.service.js';
import { InternalController, RequireApp } from '../../foundation/access/route-decorators.js';
import { EMAIL, ID, UuidListField } from '../../foundation/common/fields.js';

const MAX_IDS = 100;

class LookUpUsersRequest {
  @UuidListField(MAX_IDS) ids!: string[];
}

class FoundUserResponse {
  @ApiProperty(ID) id!: string;
  @ApiProperty(EMAIL) email!: string;
  @ApiProperty({ example: true }) is_active!: boolean;

  static from({ id, email, isActive }: Account): FoundUserResponse {
    return { id, email, is_active: isActive };
  }
}

class FoundUsersResponse {
  @ApiProperty({ type: [FoundUserResponse], maxItems: MAX_IDS }) users!: FoundUserResponse[];

  @ApiProperty({ type: [String], description: 'the ids of no user', maxItems: MAX_IDS, example: [] })
  missing!: string[];
}

@InternalController()
export class UsersInternalController {
  constructor(private readonly users: UsersService) {}

  @Post('users/lookup')
  @RequireApp({
    summary: 'Look up users by their ids',
    description: 'At most 100. A list of its moment, outside the promise of revocations.',
    returns: FoundUsersResponse,
  })
  async lookUpUsers(@Body() { ids }: LookUpUsersRequest): Promise<FoundUsersResponse> {
    const asked = [...new Set(ids.map((id) => id.toLowerCase()))];
    const users = await this.users.findUsers(asked);
    const found = new Set(users.map(({ id }) => id));
    return { users: users.map((user) => FoundUserResponse.from(user)), missing: asked.filter((id) => !found.has(id)) };
  }
}
