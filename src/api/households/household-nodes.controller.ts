import { Body, Controller, Delete, Get, Param, Post, Query, Req } from '@nestjs/common';
import { ApiProperty, ApiTags } from '@nestjs/swagger';
import type { Request } from 'express';
import { HouseholdNodesService } from '../../domain/households/household-nodes.service.js';
import type { IssuedEnrolment } from '../../domain/nodes/enrolments.service.js';
import type { Node } from '../../domain/nodes/node.entity.js';
import { RequireUser } from '../../foundation/access/route-decorators.js';
import { getPrincipal } from '../../foundation/access/principals.js';
import {
  HOUSEHOLD_ID,
  ID,
  LabelField,
  MOMENT,
  NULLABLE_MOMENT,
  NULLABLE_TARGETS,
  TARGETS,
} from '../../foundation/common/fields.js';
import { EXAMPLES } from '../../foundation/common/names.js';
import { createPageResponse, PageQuery, toPageRequest } from '../../foundation/http/page.dto.js';
import { problems, THROTTLE_PROBLEMS } from '../../foundation/problems/problems.js';
import { readLastUses } from '../../domain/keys/key-record.js';
import { HouseholdCallers } from './household-callers.js';
import { DEFAULT_ENROLMENT_MINUTES, EnrolmentMinutesField } from './household.dto.js';

class IssueHouseholdEnrolmentRequest {
  @LabelField(EXAMPLES.room) room!: string;
  @LabelField(EXAMPLES.name) name!: string;
  @EnrolmentMinutesField() expires_in_minutes = DEFAULT_ENROLMENT_MINUTES;
}

class HouseholdEnrolmentResponse {
  @ApiProperty(ID) enrolment_id!: string;
  @ApiProperty(HOUSEHOLD_ID) household_id!: string;
  @ApiProperty({ example: EXAMPLES.room }) room!: string;
  @ApiProperty({ example: EXAMPLES.name }) name!: string;
  @ApiProperty(TARGETS) targets!: string[];
  @ApiProperty(MOMENT) expires_at!: string;
  @ApiProperty({ description: 'shown only in this response', example: EXAMPLES.enrolmentCode }) code!: string;

  static from({ enrolment, code }: IssuedEnrolment): HouseholdEnrolmentResponse {
    return {
      enrolment_id: enrolment.id,
      household_id: enrolment.householdId,
      room: enrolment.room,
      name: enrolment.name,
      targets: enrolment.targets ?? [],
      expires_at: enrolment.expiresAt.toISOString(),
      code,
    };
  }
}

class HouseholdNodeResponse {
  @ApiProperty(ID) node_id!: string;
  @ApiProperty({ example: EXAMPLES.room }) room!: string;
  @ApiProperty({ example: EXAMPLES.name }) name!: string;
  @ApiProperty(NULLABLE_TARGETS) targets!: string[] | null;
  @ApiProperty(MOMENT) created_at!: string;
  @ApiProperty(NULLABLE_MOMENT) last_used_at!: string | null;
  @ApiProperty(NULLABLE_MOMENT) expires_at!: string | null;

  static from(node: Node): HouseholdNodeResponse {
    return {
      node_id: node.id,
      room: node.room,
      name: node.name,
      targets: node.targets,
      created_at: node.createdAt.toISOString(),
      last_used_at: readLastUses(node).latest?.at.toISOString() ?? null,
      expires_at: node.expiresAt?.toISOString() ?? null,
    };
  }
}

class HouseholdNodePageResponse extends createPageResponse(HouseholdNodeResponse) {}

@ApiTags('households')
@Controller('api/v0/households/:id')
export class HouseholdNodesController {
  constructor(
    private readonly nodes: HouseholdNodesService,
    private readonly callers: HouseholdCallers,
  ) {}

  @Get('nodes')
  @RequireUser({
    summary: 'List the nodes of a household',
    description: 'The live ones, for every member.',
    refusals: [problems.notFound],
    returns: HouseholdNodePageResponse,
  })
  async listHouseholdNodes(@Req() request: Request, @Param('id') id: string, @Query() query: PageQuery) {
    const { userId } = getPrincipal(request, 'user');
    return HouseholdNodePageResponse.from(await this.nodes.listNodes(userId, id, toPageRequest(query)));
  }

  @Post('enrolments')
  @RequireUser({
    summary: 'Issue a code with which a device of the household enrols itself',
    description:
      'Needs the role admin, and HOUSEHOLD_NODE_TARGETS: the node is accepted at the services that it names, and at no other. ' +
      'The device sends the code to POST /api/v0/nodes/enrol. It is cancelled when its issuer is no longer an admin.',
    refusals: [
      problems.notFound,
      problems.missingRole,
      problems.enrolmentByOperatorsOnly,
      problems.householdFull,
      ...THROTTLE_PROBLEMS,
    ],
    creates: HouseholdEnrolmentResponse,
  })
  async issueHouseholdEnrolment(
    @Req() request: Request,
    @Param('id') id: string,
    @Body() { room, name, expires_in_minutes }: IssueHouseholdEnrolmentRequest,
  ): Promise<HouseholdEnrolmentResponse> {
    const asked = { room, name, expiresInMinutes: expires_in_minutes };
    return HouseholdEnrolmentResponse.from(await this.nodes.issueEnrolment(this.callers.toCaller(request), id, asked));
  }

  @Delete('nodes/:node_id')
  @RequireUser({
    summary: 'Stop a node of the household',
    description:
      'Needs the role admin. When the call has answered, no verifier accepts the key of the node. Idempotent.',
    refusals: [problems.notFound, problems.missingRole, ...THROTTLE_PROBLEMS],
    done: 'The key of the node is refused from now on',
  })
  async revokeHouseholdNode(@Req() request: Request, @Param('id') id: string, @Param('node_id') nodeId: string) {
    await this.nodes.revokeNode(this.callers.toCaller(request), id, nodeId);
  }
}
