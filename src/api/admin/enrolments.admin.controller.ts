import { Body, Delete, Get, Param, Post, Query, Req } from '@nestjs/common';
import { ApiProperty } from '@nestjs/swagger';
import type { Request } from 'express';
import { toActor } from '../../foundation/access/actor.js';
import { AdminController, RequireAdmin } from '../../foundation/access/route-decorators.js';
import { EXAMPLES } from '../../foundation/common/names.js';
import {
  FlagField,
  HOUSEHOLD_ID,
  ID,
  MOMENT,
  NULLABLE_MOMENT,
  NULLABLE_TARGETS,
  TargetsField,
  UuidField,
} from '../../foundation/common/fields.js';
import { createPageResponse, PageQuery, toPageRequest } from '../../foundation/http/page.dto.js';
import { CODE_STATES } from '../../domain/keys/one-time-codes.js';
import { EnrolmentsService, type EnrolmentView } from '../../domain/nodes/enrolments.service.js';
import { problems } from '../../foundation/problems/problems.js';
import { DEFAULT_ENROLMENT_MINUTES, EnrolmentMinutesField } from '../households/household.dto.js';
import { NewNodeRequest } from './nodes.admin.controller.js';

export class IssueEnrolmentRequest extends NewNodeRequest {
  @TargetsField('; absent: those of NODE_TARGETS') targets?: string[] | null;
  @EnrolmentMinutesField() expires_in_minutes = DEFAULT_ENROLMENT_MINUTES;
}

class EnrolmentsQuery extends PageQuery {
  @FlagField('only enrolments whose code can be used now') open?: true;
  @UuidField({ example: EXAMPLES.householdId }, { optional: true }) household_id?: string;
}

export class NodeEnrolmentResponse {
  @ApiProperty(ID) enrolment_id!: string;
  @ApiProperty({ enum: CODE_STATES, enumName: 'EnrolmentState', example: 'open' }) state!: EnrolmentView['state'];
  @ApiProperty(HOUSEHOLD_ID) household_id!: string;
  @ApiProperty({ example: EXAMPLES.room }) room!: string;
  @ApiProperty({ example: EXAMPLES.name }) name!: string;

  @ApiProperty(NULLABLE_TARGETS) targets!: string[] | null;
  @ApiProperty(MOMENT) created_at!: string;
  @ApiProperty(MOMENT) expires_at!: string;
  @ApiProperty(NULLABLE_MOMENT) used_at!: string | null;
  @ApiProperty({ ...ID, nullable: true, description: 'the node that used it', example: null }) node_id!: string | null;

  @ApiProperty({
    ...ID,
    nullable: true,
    description: 'the admin of the household who issued it; null: an operator',
    example: null,
  })
  issued_by!: string | null;

  static from({ enrolment, state }: EnrolmentView): NodeEnrolmentResponse {
    return {
      enrolment_id: enrolment.id,
      state,
      household_id: enrolment.householdId,
      room: enrolment.room,
      name: enrolment.name,
      targets: enrolment.targets,
      created_at: enrolment.createdAt.toISOString(),
      expires_at: enrolment.expiresAt.toISOString(),
      used_at: enrolment.usedAt?.toISOString() ?? null,
      node_id: enrolment.nodeId ?? null,
      issued_by: enrolment.issuedBy ?? null,
    };
  }
}

export class IssuedEnrolmentResponse extends NodeEnrolmentResponse {
  @ApiProperty({ description: 'shown only in this response', example: EXAMPLES.enrolmentCode }) code!: string;
}

class EnrolmentPageResponse extends createPageResponse(NodeEnrolmentResponse) {}

@AdminController('/enrolments')
export class EnrolmentsAdminController {
  constructor(private readonly enrolments: EnrolmentsService) {}

  @Post()
  @RequireAdmin('nodes', {
    summary: 'Issue a code with which a node enrols itself',
    description:
      'The code is shown only in this response. The device sends it to POST /api/v0/nodes/enrol, once, before it expires. ' +
      'Its ten characters can be read aloud; the last one is the check symbol of Crockford’s base 32.',
    creates: IssuedEnrolmentResponse,
  })
  async issueEnrolment(
    @Req() request: Request,
    @Body() { household_id, expires_in_minutes, ...node }: IssueEnrolmentRequest,
  ): Promise<IssuedEnrolmentResponse> {
    const asked = { ...node, householdId: household_id.toLowerCase(), expiresInMinutes: expires_in_minutes };
    const issued = await this.enrolments.issueEnrolment(asked, toActor(request));
    request.res?.location(`/api/v0/admin/enrolments/${issued.enrolment.id}`);
    return { ...NodeEnrolmentResponse.from(issued), code: issued.code };
  }

  @Get()
  @RequireAdmin('nodes', {
    summary: 'List enrolments',
    description: 'Also those that have ended, until 30 days after their end.',
    returns: EnrolmentPageResponse,
  })
  async listEnrolments(@Query() query: EnrolmentsQuery): Promise<EnrolmentPageResponse> {
    const filter = { householdId: query.household_id, isOpen: query.open === true };
    const page = await this.enrolments.listEnrolments(toPageRequest(query), filter);
    return EnrolmentPageResponse.from(page);
  }

  @Get(':enrolment_id')
  @RequireAdmin('nodes', { summary: 'Get an enrolment', refusals: [problems.notFound], returns: NodeEnrolmentResponse })
  async getEnrolment(@Param('enrolment_id') id: string): Promise<NodeEnrolmentResponse> {
    return NodeEnrolmentResponse.from(await this.enrolments.findEnrolment(id));
  }

  @Delete(':enrolment_id')
  @RequireAdmin('nodes', {
    summary: 'Cancel an enrolment',
    description: 'Its code is unknown from the next call on. 409 when a device has used it: revoke that node instead.',
    refusals: [problems.notFound, problems.enrolmentUsed],
  })
  async cancelEnrolment(@Req() request: Request, @Param('enrolment_id') id: string): Promise<void> {
    await this.enrolments.cancelEnrolment(id, toActor(request));
  }
}
