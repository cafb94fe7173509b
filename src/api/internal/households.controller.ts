import { Get, Param, Query } from '@nestjs/common';
import { ApiProperty } from '@nestjs/swagger';
import { HouseholdsService } from '../../domain/households/households.service.js';
import { MembersService, type Member } from '../../domain/households/members.service.js';
import { InternalController, RequireApp } from '../../foundation/access/route-decorators.js';
import { HOUSEHOLD_ROLE, ID } from '../../foundation/common/fields.js';
import type { HouseholdRole } from '../../foundation/common/names.js';
import { createPageResponse, PageQuery, toPageRequest } from '../../foundation/http/page.dto.js';
import { problems } from '../../foundation/problems/problems.js';

class MemberOfHouseholdResponse {
  @ApiProperty(ID) id!: string;
  @ApiProperty(HOUSEHOLD_ROLE) role!: HouseholdRole;

  static from({ id, role }: Member): MemberOfHouseholdResponse {
    return { id, role };
  }
}

class MemberOfHouseholdPageResponse extends createPageResponse(MemberOfHouseholdResponse) {}

@InternalController()
export class HouseholdsInternalController {
  constructor(
    private readonly households: HouseholdsService,
    private readonly members: MembersService,
  ) {}

  @Get('households/:id/members')
  @RequireApp({
    summary: 'List the members of a household',
    description:
      'A list of its moment, to show or to notify people: it is **outside the promise** of revocations. Whether a caller may ' +
      'command a household is what `households` of validate-user says.',
    refusals: [problems.notFound],
    returns: MemberOfHouseholdPageResponse,
  })
  async listMembersOfHousehold(@Param('id') id: string, @Query() query: PageQuery) {
    const household = await this.households.findHousehold(id);
    return MemberOfHouseholdPageResponse.from(await this.members.listMembers(household.id, toPageRequest(query)));
  }
}
