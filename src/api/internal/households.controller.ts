import { Body, Get, Param, Post, Query } from '@nestjs/common';
import { ApiOperation, ApiProperty } from '@nestjs/swagger';
import { ArrayMaxSize, ArrayNotEmpty, IsUUID } from 'class-validator';
import { HouseholdsService } from '../../domain/households/households.service.js';
import { MembersService, type Member } from '../../domain/households/members.service.js';
import { HOUSEHOLD_ROLES, type HouseholdRole } from '../../domain/households/memberships.js';
import { UsersService, type Account } from '../../domain/users/users.service.js';
import { Answers, InternalController, RequireApp } from '../../foundation/access/require.js';
import { ID } from '../../foundation/common/fields.js';
import { EXAMPLES } from '../../foundation/common/names.js';
import { createPageResponse, PageQuery, toPageRequest } from '../../foundation/http/page.dto.js';
import { ApiProblems } from '../../foundation/problems/api-problems.js';
import { problems } from '../../foundation/problems/problems.js';

const MAX_IDS = 100;

class MemberOfHouseholdResponse {
  @ApiProperty(ID) id!: string;
  @ApiProperty({ enum: HOUSEHOLD_ROLES, enumName: 'HouseholdRole', example: 'member' }) role!: HouseholdRole;

  static from({ id, role }: Member): MemberOfHouseholdResponse {
    return { id, role };
  }
}

class MemberOfHouseholdPageResponse extends createPageResponse(MemberOfHouseholdResponse) {}

class LookUpUsersRequest {
  @ApiProperty({ type: [String], format: 'uuid', minItems: 1, maxItems: MAX_IDS, example: [EXAMPLES.id] })
  @IsUUID('loose', { each: true, message: 'must be a list of UUIDs' })
  @ArrayNotEmpty({ message: 'must not be empty' })
  @ArrayMaxSize(MAX_IDS, { message: `must have at most ${MAX_IDS} items` })
  ids!: string[];
}

class FoundUserResponse {
  @ApiProperty(ID) id!: string;
  @ApiProperty({ type: String, format: 'email', example: EXAMPLES.email }) email!: string;
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
export class HouseholdsInternalController {
  constructor(
    private readonly households: HouseholdsService,
    private readonly members: MembersService,
    private readonly users: UsersService,
  ) {}

  @Get('households/:id/members')
  @RequireApp()
  @ApiProblems(problems.notFound)
  @ApiOperation({
    summary: 'List the members of a household',
    description:
      'A list of its moment, to show or to notify people: it is **outside the promise** of revocations. Whether a caller may ' +
      'command a household is what `households` of validate-user says.',
  })
  @Answers(200, MemberOfHouseholdPageResponse)
  async listMembersOfHousehold(
    @Param('id') id: string,
    @Query() query: PageQuery,
  ): Promise<MemberOfHouseholdPageResponse> {
    const household = await this.households.findHousehold(id);
    return MemberOfHouseholdPageResponse.from(await this.members.listMembers(household.id, toPageRequest(query)));
  }

  @Post('users/lookup')
  @RequireApp()
  @ApiOperation({
    summary: 'Look up users by their ids',
    description: 'At most 100. A list of its moment, outside the promise of revocations.',
  })
  @Answers(200, FoundUsersResponse)
  async lookUpUsers(@Body() { ids }: LookUpUsersRequest): Promise<FoundUsersResponse> {
    const asked = [...new Set(ids.map((id) => id.toLowerCase()))];
    const users = await this.users.findUsers(asked);
    const found = new Set(users.map(({ id }) => id));
    return { users: users.map((user) => FoundUserResponse.from(user)), missing: asked.filter((id) => !found.has(id)) };
  }
}
