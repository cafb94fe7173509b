// The households of the caller, with the access token alone or, where a thief of it could expel its user, with the
// password and a fresh second factor. A caller who is not a member gets 404 for everything about a household.
import { Body, Controller, Delete, Get, Param, Patch, Post, Query, Req } from '@nestjs/common';
import { ApiTags } from '@nestjs/swagger';
import type { Request } from 'express';
import type { MemberCaller } from '../../domain/households/household-actions.js';
import { HouseholdLifecycle } from '../../domain/households/household-lifecycle.js';
import { HouseholdsService } from '../../domain/households/households.service.js';
import { MembersService } from '../../domain/households/members.service.js';
import { REAUTHENTICATION_PROBLEMS } from '../../domain/second-factors/reauthentication.js';
import { RequireUser } from '../../foundation/access/route-decorators.js';
import { getPrincipal } from '../../foundation/access/principals.js';
import { PageQuery, toPageRequest } from '../../foundation/http/page.dto.js';
import { problems, THROTTLE_PROBLEMS } from '../../foundation/problems/problems.js';
import { HouseholdCallers } from './household-callers.js';
import {
  ChangeRoleRequest,
  DeleteHouseholdQuery,
  HouseholdMemberPageResponse,
  HouseholdMemberResponse,
  HouseholdNameRequest,
  HouseholdPageResponse,
  HouseholdResponse,
  ProvenRequest,
} from './household.dto.js';

const ACT_PROBLEMS = [problems.notFound, problems.missingRole, ...THROTTLE_PROBLEMS];
const NEEDS_PASSWORD = 'The password is needed';

@ApiTags('households')
@Controller('api/v0/households')
export class HouseholdsController {
  constructor(
    private readonly households: HouseholdsService,
    private readonly lifecycle: HouseholdLifecycle,
    private readonly members: MembersService,
    private readonly callers: HouseholdCallers,
  ) {}

  @Post()
  @RequireUser({
    summary: 'Create a household',
    description: 'The caller becomes its admin. Its id is made here. At most 60 acts on households an hour.',
    refusals: [problems.tooManyHouseholds, ...THROTTLE_PROBLEMS],
    creates: HouseholdResponse,
  })
  async createHousehold(@Req() request: Request, @Body() { name }: HouseholdNameRequest): Promise<HouseholdResponse> {
    const household = await this.lifecycle.createHousehold(this.callers.toCaller(request), name);
    request.res?.location(`/api/v0/households/${household.id}`);
    return HouseholdResponse.from(household);
  }

  @Get()
  @RequireUser({ summary: 'List your households', returns: HouseholdPageResponse })
  async listOwnHouseholds(@Req() request: Request, @Query() query: PageQuery): Promise<HouseholdPageResponse> {
    const { userId } = getPrincipal(request, 'user');
    return HouseholdPageResponse.from(await this.households.listOwnHouseholds(userId, toPageRequest(query)));
  }

  @Get(':id')
  @RequireUser({ summary: 'Get one of your households', refusals: [problems.notFound], returns: HouseholdResponse })
  async getOwnHousehold(@Req() request: Request, @Param('id') id: string): Promise<HouseholdResponse> {
    const { userId } = getPrincipal(request, 'user');
    return HouseholdResponse.from(await this.households.findOwnHousehold(userId, id));
  }

  @Patch(':id')
  @RequireUser({
    summary: 'Rename a household',
    description: 'Needs the role admin.',
    refusals: ACT_PROBLEMS,
    returns: HouseholdResponse,
  })
  async renameOwnHousehold(@Req() request: Request, @Param('id') id: string, @Body() { name }: HouseholdNameRequest) {
    const caller = this.callers.toCaller(request);
    await this.lifecycle.renameHousehold(caller, id, name);
    return HouseholdResponse.from(await this.households.findOwnHousehold(caller.userId, id));
  }

  @Delete(':id')
  @RequireUser({
    summary: 'Delete a household',
    description:
      `Needs the role admin, and the password. Ends all memberships, invitations and enrolments of it: when the call has ` +
      'answered, no verifier takes a person for a member. 409 while it has live nodes, unless they are revoked with it.',
    refusals: [...ACT_PROBLEMS, ...REAUTHENTICATION_PROBLEMS, problems.householdHasNodes],
    optionalBody: ProvenRequest,
    done: 'The household is deleted',
  })
  async deleteOwnHousehold(
    @Req() request: Request,
    @Param('id') id: string,
    @Query() { revoke_nodes }: DeleteHouseholdQuery,
    @Body() body: ProvenRequest,
  ): Promise<void> {
    await this.callers.actAs(request, body, (caller) =>
      this.lifecycle.deleteHousehold(caller, id, { revokesNodes: revoke_nodes === true }),
    );
  }

  @Get(':id/members')
  @RequireUser({
    summary: 'List the members of a household',
    refusals: [problems.notFound],
    returns: HouseholdMemberPageResponse,
  })
  async listMembers(@Req() request: Request, @Param('id') id: string, @Query() query: PageQuery) {
    const household = await this.households.findOwnHousehold(getPrincipal(request, 'user').userId, id);
    return HouseholdMemberPageResponse.from(await this.members.listMembers(household.id, toPageRequest(query)));
  }

  @Patch(':id/members/:user_id')
  @RequireUser({
    summary: 'Change the role of a member',
    description:
      `Needs the role admin. ${NEEDS_PASSWORD} to make an admin and to demote another one. A demotion cancels the open codes ` +
      'that the person issued; when the call has answered, no verifier accepts the former role.',
    refusals: [...ACT_PROBLEMS, ...REAUTHENTICATION_PROBLEMS, problems.lastAdmin],
    returns: HouseholdMemberResponse,
  })
  async changeRole(
    @Req() request: Request,
    @Param('id') id: string,
    @Param('user_id') userId: string,
    @Body() { role, ...given }: ChangeRoleRequest,
  ): Promise<HouseholdMemberResponse> {
    const change = (caller: MemberCaller) => this.members.changeRole(caller, id, userId, role);
    return HouseholdMemberResponse.from(await this.callers.actAs(request, given, change));
  }

  @Delete(':id/members/:user_id')
  @RequireUser({
    summary: 'Remove a member, or leave',
    description:
      `Needs the role admin, unless the caller leaves. ${NEEDS_PASSWORD} to remove another admin. Cancels the open codes that ` +
      'the person issued. When the call has answered, no verifier takes the person for a member.',
    refusals: [...ACT_PROBLEMS, ...REAUTHENTICATION_PROBLEMS, problems.lastAdmin],
    optionalBody: ProvenRequest,
    done: 'The person is not a member any more',
  })
  async removeMember(
    @Req() request: Request,
    @Param('id') id: string,
    @Param('user_id') userId: string,
    @Body() body: ProvenRequest,
  ): Promise<void> {
    await this.callers.actAs(request, body, (caller) => this.members.removeMember(caller, id, userId));
  }
}
