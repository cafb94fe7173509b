import { Body, Controller, Delete, Get, Param, Post, Query, Req } from '@nestjs/common';
import { ApiBody, ApiOperation, ApiTags } from '@nestjs/swagger';
import type { Request } from 'express';
import { HouseholdsService } from '../../domain/households/households.service.js';
import { InvitationsService } from '../../domain/households/invitations.service.js';
import { Answers, RequireUser } from '../../foundation/access/require.js';
import { TextField, WholeNumberField } from '../../foundation/common/fields.js';
import { EXAMPLES } from '../../foundation/common/names.js';
import { PageQuery, toPageRequest } from '../../foundation/http/page.dto.js';
import { ApiProblems } from '../../foundation/problems/api-problems.js';
import { ProblemException, problems } from '../../foundation/problems/problems.js';
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
  @RequireUser()
  @ApiProblems(...ADMIN_PROBLEMS, problems.householdFull, problems.tooManyRequests)
  @ApiBody({ type: IssueInvitationRequest, required: false })
  @ApiOperation({
    summary: 'Invite one person',
    description:
      'Needs the role admin. The code is shown only in this response. The person becomes a member with it, never an admin. It ' +
      'is cancelled when its issuer is no longer an admin.',
  })
  @Answers(201, IssuedInvitationResponse)
  async issueInvitation(
    @Req() request: Request,
    @Param('id') id: string,
    @Body() { expires_in_hours }: IssueInvitationRequest,
  ): Promise<IssuedInvitationResponse> {
    const issued = await this.invitations.issueInvitation(this.callers.toCaller(request), id, expires_in_hours);
    return { ...InvitationResponse.from(issued), code: issued.code };
  }

  @Get('households/:id/invitations')
  @RequireUser()
  @ApiProblems(...ADMIN_PROBLEMS)
  @ApiOperation({
    summary: 'List the invitations of a household',
    description: 'Needs the role admin. Also those that have ended, until 30 days after their end.',
  })
  @Answers(200, InvitationPageResponse)
  async listInvitations(
    @Req() request: Request,
    @Param('id') id: string,
    @Query() query: PageQuery,
  ): Promise<InvitationPageResponse> {
    const household = await this.households.findOwnHousehold(this.callers.toCaller(request).userId, id);
    if (household.role !== 'admin') throw new ProblemException(problems.missingRole);
    const filter = { householdId: household.id, isOpen: false };
    return InvitationPageResponse.from(await this.invitations.listInvitations(toPageRequest(query), filter));
  }

  @Delete('households/:id/invitations/:invitation_id')
  @RequireUser()
  @ApiProblems(...ADMIN_PROBLEMS, problems.invitationUsed, problems.tooManyRequests)
  @ApiOperation({
    summary: 'Cancel an invitation',
    description: 'Needs the role admin. Its code is unknown afterwards.',
  })
  @Answers(204, 'The code cannot be used any more')
  async cancelInvitation(
    @Req() request: Request,
    @Param('id') id: string,
    @Param('invitation_id') invitationId: string,
  ): Promise<void> {
    await this.invitations.cancelInvitation(this.callers.toCaller(request), id, invitationId);
  }

  @Post('invitations/accept')
  @RequireUser()
  @ApiProblems(
    problems.notFound,
    problems.alreadyMember,
    problems.householdFull,
    problems.tooManyHouseholds,
    problems.tooManyRequests,
  )
  @ApiOperation({
    summary: 'Accept an invitation',
    description:
      'The caller becomes a member of the household, once for each code. Who repeats the call with the code that they used ' +
      'gets the same answer while they are a member. 404: the code is unknown, has expired, was cancelled or was used; these ' +
      'look alike. Ten wrong codes an hour for each user and each network.',
  })
  @Answers(200, HouseholdResponse)
  async acceptInvitation(
    @Req() request: Request,
    @Body() { code }: AcceptInvitationRequest,
  ): Promise<HouseholdResponse> {
    return HouseholdResponse.from(await this.invitations.acceptInvitation(this.callers.toCaller(request), code));
  }
}
