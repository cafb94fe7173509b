import { Body, Controller, Delete, Get, Param, Post, Query, Req } from '@nestjs/common';
import { ApiTags } from '@nestjs/swagger';
import type { Request } from 'express';
import { HouseholdsService } from '../../domain/households/households.service.js';
import { InvitationsService } from '../../domain/households/invitations.service.js';
import { RequireUser } from '../../foundation/access/route-decorators.js';
import { TextField, WholeNumberField } from '../../foundation/common/fields.js';
import { EXAMPLES } from '../../foundation/common/names.js';
import { PageQuery, toPageRequest } from '../../foundation/http/page.dto.js';
import { ProblemException, problems, THROTTLE_PROBLEMS } from '../../foundation/problems/problems.js';
import { HouseholdCallers } from './household-callers.js';
import {
  HouseholdResponse,
  InvitationPageResponse,
  InvitationResponse,
  IssuedInvitationResponse,
} from './household.dto.js';

const DEFAULT_HOURS = 72;
const MAX_HOURS = 168;
/** A code has 24 characters; people may add hyphens and blanks. */
const MAX_CODE_LENGTH = 64;
const ADMIN_PROBLEMS = [problems.notFound, problems.missingRole];

class IssueInvitationRequest {
  @WholeNumberField(1, MAX_HOURS, `for how long the code can be used. Default: ${DEFAULT_HOURS}`, DEFAULT_HOURS)
  expires_in_hours = DEFAULT_HOURS;
}

class AcceptInvitationRequest {
  @TextField(MAX_CODE_LENGTH, { description: 'in any letter case', example: EXAMPLES.invitationCode }) code!: string;
}

@ApiTags('households')
@Controller('api/v0')
export class InvitationsController {
  constructor(
    private readonly invitations: InvitationsService,
    private readonly households: HouseholdsService,
    private readonly callers: HouseholdCallers,
  ) {}

  @Post('households/:id/invitations')
  @RequireUser({
    summary: 'Invite one person',
    description:
      'Needs the role admin. The code is shown only in this response. The person becomes a member with it, never an admin. It ' +
      'is cancelled when its issuer is no longer an admin.',
    refusals: [...ADMIN_PROBLEMS, problems.householdFull, ...THROTTLE_PROBLEMS],
    optionalBody: IssueInvitationRequest,
    creates: IssuedInvitationResponse,
  })
  async issueInvitation(
    @Req() request: Request,
    @Param('id') id: string,
    @Body() { expires_in_hours }: IssueInvitationRequest,
  ): Promise<IssuedInvitationResponse> {
    const issued = await this.invitations.issueInvitation(this.callers.toCaller(request), id, expires_in_hours);
    return { ...InvitationResponse.from(issued), code: issued.code };
  }

  @Get('households/:id/invitations')
  @RequireUser({
    summary: 'List the invitations of a household',
    description: 'Needs the role admin. Also those that have ended, until 30 days after their end.',
    refusals: ADMIN_PROBLEMS,
    returns: InvitationPageResponse,
  })
  async listInvitations(@Req() request: Request, @Param('id') id: string, @Query() query: PageQuery) {
    const household = await this.households.findOwnHousehold(this.callers.toCaller(request).userId, id);
    if (household.role !== 'admin') throw new ProblemException(problems.missingRole);
    const filter = { householdId: household.id, isOpen: false };
    return InvitationPageResponse.from(await this.invitations.listInvitations(toPageRequest(query), filter));
  }

  @Delete('households/:id/invitations/:invitation_id')
  @RequireUser({
    summary: 'Cancel an invitation',
    description: 'Needs the role admin. Its code is unknown afterwards.',
    refusals: [...ADMIN_PROBLEMS, problems.invitationUsed, ...THROTTLE_PROBLEMS],
    done: 'The code cannot be used any more',
  })
  async cancelInvitation(
    @Req() request: Request,
    @Param('id') id: string,
    @Param('invitation_id') invitationId: string,
  ): Promise<void> {
    await this.invitations.cancelInvitation(this.callers.toCaller(request), id, invitationId);
  }

  @Post('invitations/accept')
  @RequireUser({
    summary: 'Accept an invitation',
    description:
      'The caller becomes a member of the household, once for each code. Who repeats the call with the code that they used ' +
      'gets the same answer while they are a member. 404: the code is unknown, has expired, was cancelled or was used; these ' +
      'look alike. Ten wrong codes an hour for each user and each network.',
    refusals: [
      problems.notFound,
      problems.alreadyMember,
      problems.householdFull,
      problems.tooManyHouseholds,
      ...THROTTLE_PROBLEMS,
    ],
    returns: HouseholdResponse,
  })
  async acceptInvitation(@Req() request: Request, @Body() { code }: AcceptInvitationRequest) {
    return HouseholdResponse.from(await this.invitations.acceptInvitation(this.callers.toCaller(request), code));
  }
}
