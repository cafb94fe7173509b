import { Body, Delete, Get, Param, Patch, Post, Query, Req } from '@nestjs/common';
import { ApiProperty } from '@nestjs/swagger';
import type { Request } from 'express';
import type { Caller } from '../../domain/households/household-actions.js';
import { HouseholdLifecycle } from '../../domain/households/household-lifecycle.js';
import {
  HouseholdsService,
  type CountedHousehold,
  type HouseholdFilter,
} from '../../domain/households/households.service.js';
import { InvitationsService } from '../../domain/households/invitations.service.js';
import { MembersService, type Member } from '../../domain/households/members.service.js';
import { toActor } from '../../foundation/access/actor.js';
import { AdminController, RequireAdmin } from '../../foundation/access/route-decorators.js';
import { FlagField, SearchField, UuidField } from '../../foundation/common/fields.js';
import { EXAMPLES, type HouseholdRole } from '../../foundation/common/names.js';
import { createPageResponse, PageQuery, SortField, toPageRequest } from '../../foundation/http/page.dto.js';
import { problems } from '../../foundation/problems/problems.js';
import {
  DeleteHouseholdQuery,
  HouseholdFields,
  HouseholdMemberResponse,
  HouseholdNameRequest,
  InvitationPageResponse,
  RoleField,
} from '../households/household.dto.js';

/** Not by id: an id that a node names may be a UUID of any version, so the order of the ids is not that of creation. */
const ORDERS = { created_at: 'createdAt' };

class HouseholdsQuery extends PageQuery {
  @SortField('HouseholdOrder', ORDERS) sort?: string;
  @SearchField('home', 'only households whose name contains this, in any case') search?: string;
  @UuidField({ example: EXAMPLES.id, description: 'only households of this user' }, { optional: true })
  user_id?: string;

  @FlagField('only households with members, of whom none is an active admin') without_admin?: true;
  @FlagField('only households without members') without_members?: true;
}

function toHouseholdFilter(query: HouseholdsQuery): HouseholdFilter {
  return {
    search: query.search,
    memberId: query.user_id,
    isWithoutAdmin: query.without_admin === true,
    isWithoutMembers: query.without_members === true,
  };
}

class InvitationsQuery extends PageQuery {
  @FlagField('only invitations whose code can be used now') open?: true;
  @UuidField({ example: EXAMPLES.householdId }, { optional: true }) household_id?: string;
}

class SetMemberRoleRequest {
  @RoleField() role!: HouseholdRole;
}

class AddMemberRequest extends SetMemberRoleRequest {
  @UuidField({ example: EXAMPLES.id }) user_id!: string;
}

export class AdminHouseholdResponse extends HouseholdFields {
  @ApiProperty({ type: 'integer', example: 3 }) members!: number;
  @ApiProperty({ type: 'integer', description: 'disabled users do not count', example: 1 }) active_admins!: number;

  static from(household: CountedHousehold): AdminHouseholdResponse {
    const { members, activeAdmins } = household;
    return { ...HouseholdFields.toFields(household), members, active_admins: activeAdmins };
  }
}

class AdminHouseholdPageResponse extends createPageResponse(AdminHouseholdResponse) {}

export class AdminHouseholdMemberResponse extends HouseholdMemberResponse {
  @ApiProperty({ description: 'false: the user is disabled, and keeps the place', example: true }) is_active!: boolean;

  static override from(member: Member): AdminHouseholdMemberResponse {
    return { ...HouseholdMemberResponse.from(member), is_active: member.isActive };
  }
}

class AdminHouseholdMemberPageResponse extends createPageResponse(AdminHouseholdMemberResponse) {}

const toCaller = (request: Request): Caller => ({ actor: toActor(request), userId: null });

@AdminController('/households')
export class HouseholdsAdminController {
  constructor(
    private readonly households: HouseholdsService,
    private readonly lifecycle: HouseholdLifecycle,
    private readonly members: MembersService,
  ) {}

  @Get()
  @RequireAdmin('nodes', { summary: 'List households', returns: AdminHouseholdPageResponse })
  async listHouseholds(@Query() query: HouseholdsQuery): Promise<AdminHouseholdPageResponse> {
    const page = await this.households.listHouseholds(toPageRequest(query, ORDERS), toHouseholdFilter(query));
    return AdminHouseholdPageResponse.from(page);
  }

  @Get(':household_id')
  @RequireAdmin('nodes', { summary: 'Get a household', refusals: [problems.notFound], returns: AdminHouseholdResponse })
  async getHousehold(@Param('household_id') id: string): Promise<AdminHouseholdResponse> {
    return AdminHouseholdResponse.from(await this.households.findHousehold(id));
  }

  @Patch(':household_id')
  @RequireAdmin('nodes', {
    summary: 'Rename a household',
    refusals: [problems.notFound],
    returns: AdminHouseholdResponse,
  })
  async renameHousehold(
    @Req() request: Request,
    @Param('household_id') id: string,
    @Body() { name }: HouseholdNameRequest,
  ): Promise<AdminHouseholdResponse> {
    await this.lifecycle.renameHousehold(toCaller(request), id, name);
    return this.getHousehold(id);
  }

  @Delete(':household_id')
  @RequireAdmin('nodes', {
    summary: 'Delete a household',
    description:
      'Ends all memberships, invitations and enrolments of it: when the call has answered, no verifier takes a person for a ' +
      'member. 409 while it has live nodes, unless they are revoked with it.',
    refusals: [problems.notFound, problems.householdHasNodes],
  })
  async deleteHousehold(
    @Req() request: Request,
    @Param('household_id') id: string,
    @Query() { revoke_nodes }: DeleteHouseholdQuery,
  ): Promise<void> {
    await this.lifecycle.deleteHousehold(toCaller(request), id, { revokesNodes: revoke_nodes === true });
  }

  @Get(':household_id/members')
  @RequireAdmin('nodes', {
    summary: 'List the members of a household',
    refusals: [problems.notFound],
    returns: AdminHouseholdMemberPageResponse,
  })
  async listHouseholdMembers(@Param('household_id') id: string, @Query() query: PageQuery) {
    const household = await this.households.findHousehold(id);
    return AdminHouseholdMemberPageResponse.from(await this.members.listMembers(household.id, toPageRequest(query)));
  }

  @Post(':household_id/members')
  @RequireAdmin('nodes', {
    summary: 'Add a member to a household',
    description: 'Without an invitation. A household has at most 100 members, and a user at most 100 households.',
    refusals: [problems.notFound, problems.alreadyMember, problems.householdFull, problems.tooManyHouseholds],
    creates: AdminHouseholdMemberResponse,
  })
  async addHouseholdMember(
    @Req() request: Request,
    @Param('household_id') id: string,
    @Body() { user_id, role }: AddMemberRequest,
  ): Promise<AdminHouseholdMemberResponse> {
    const member = await this.members.addMember(toCaller(request), id, user_id, role);
    return AdminHouseholdMemberResponse.from(member);
  }

  @Patch(':household_id/members/:user_id')
  @RequireAdmin('nodes', {
    summary: 'Change the role of a member of a household',
    description: 'An operator may leave a household without an active admin; `without_admin` lists it then.',
    refusals: [problems.notFound],
    returns: AdminHouseholdMemberResponse,
  })
  async changeHouseholdMember(
    @Req() request: Request,
    @Param('household_id') id: string,
    @Param('user_id') userId: string,
    @Body() { role }: SetMemberRoleRequest,
  ): Promise<AdminHouseholdMemberResponse> {
    return AdminHouseholdMemberResponse.from(await this.members.changeRole(toCaller(request), id, userId, role));
  }

  @Delete(':household_id/members/:user_id')
  @RequireAdmin('nodes', {
    summary: 'Remove a member from a household',
    description: 'When the call has answered, no verifier takes the person for a member.',
    refusals: [problems.notFound],
  })
  async removeHouseholdMember(
    @Req() request: Request,
    @Param('household_id') id: string,
    @Param('user_id') userId: string,
  ): Promise<void> {
    await this.members.removeMember(toCaller(request), id, userId);
  }
}

@AdminController('/invitations')
export class InvitationsAdminController {
  constructor(private readonly invitations: InvitationsService) {}

  @Get()
  @RequireAdmin('nodes', {
    summary: 'List invitations to households',
    description: 'Also those that have ended, until 30 days after their end.',
    returns: InvitationPageResponse,
  })
  async listAllInvitations(@Query() query: InvitationsQuery): Promise<InvitationPageResponse> {
    const filter = { householdId: query.household_id, isOpen: query.open === true };
    return InvitationPageResponse.from(await this.invitations.listInvitations(toPageRequest(query), filter));
  }

  @Delete(':invitation_id')
  @RequireAdmin('nodes', {
    summary: 'Cancel an invitation to a household',
    refusals: [problems.notFound, problems.invitationUsed],
  })
  async cancelInvitationByOperator(@Req() request: Request, @Param('invitation_id') id: string): Promise<void> {
    await this.invitations.cancelInvitationByOperator(id, toActor(request));
  }
}
