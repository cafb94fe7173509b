import { Body, Controller, Delete, Get, HttpCode, Param, Patch, Post, Query, Req, Res } from '@nestjs/common';
import {
  ApiBody,
  ApiCreatedResponse,
  ApiHeader,
  ApiNoContentResponse,
  ApiOkResponse,
  ApiOperation,
  ApiParam,
  ApiProperty,
  ApiTags,
} from '@nestjs/swagger';
import type { Request, Response } from 'express';
import { RequireAdmin } from '../access/require.js';
import { toActor } from '../access/actor.js';
import {
  IDEMPOTENCY_KEY_PATTERN,
  MAX_IDEMPOTENCY_KEY_LENGTH,
  readIdempotencyKey,
} from '../nodes/registration-retries.js';
import { EXAMPLES } from '../common/examples.js';
import { ExpiresAtField, LabelField, parseMoment, UuidField } from '../common/fields.js';
import { DEFAULT_OVERLAP_HOURS } from '../config/limits.js';
import { createPageResponse, PageQuery, toPageRequest } from '../http/page.js';
import { NodesService, type NodeChange, type NodeRegistration, type NodeDevice } from '../nodes/nodes.service.js';
import { ApiProblems } from '../problems/api-problems.js';
import { problems } from '../problems/problems.js';
import { KeyResponse, RotateRequest } from './key.dto.js';

export class RegisterNodeRequest {
  @UuidField({ example: EXAMPLES.householdId })
  household_id!: string;

  @LabelField(EXAMPLES.room)
  room!: string;

  @LabelField(EXAMPLES.name)
  name!: string;

  @ExpiresAtField()
  expires_at?: string | null;
}

export class UpdateNodeRequest {
  @LabelField('living room', { optional: true })
  room?: string;

  @LabelField('lamp', { optional: true })
  name?: string;

  @ExpiresAtField()
  expires_at?: string | null;
}

export function toRegistration({ household_id, room, name, expires_at }: RegisterNodeRequest): NodeRegistration {
  return { householdId: household_id.toLowerCase(), room, name, expiresAt: parseMoment(expires_at ?? null) };
}

export function toChange({ room, name, expires_at }: UpdateNodeRequest): NodeChange {
  return {
    ...(room !== undefined && { room }),
    ...(name !== undefined && { name }),
    ...(expires_at !== undefined && { expiresAt: parseMoment(expires_at) }),
  };
}

export class NodesQuery extends PageQuery {
  @UuidField({ example: EXAMPLES.householdId, description: 'only nodes of this household' }, { optional: true })
  household_id?: string;
}

export class NodeResponse extends KeyResponse {
  @ApiProperty({ type: String, format: 'uuid', example: EXAMPLES.id })
  node_id!: string;

  @ApiProperty({ type: String, format: 'uuid', example: EXAMPLES.householdId })
  household_id!: string;

  @ApiProperty({ example: EXAMPLES.room })
  room!: string;

  @ApiProperty({ example: EXAMPLES.name })
  name!: string;

  static from(node: NodeDevice): NodeResponse {
    return {
      node_id: node.id,
      household_id: node.householdId,
      room: node.room,
      name: node.name,
      ...KeyResponse.toKeyFields(node),
    };
  }
}

export class IssuedNodeResponse extends NodeResponse {
  @ApiProperty({ description: 'shown only in this response', example: 'pa_node_kJ3…' })
  api_key!: string;

  static fromIssued(node: NodeDevice, key: string): IssuedNodeResponse {
    return { ...NodeResponse.from(node), api_key: key };
  }
}

export class NodePageResponse extends createPageResponse<NodeDevice, NodeResponse>(NodeResponse) {}

@ApiTags('admin')
@Controller('api/v0/admin/nodes')
export class NodesAdminController {
  constructor(private readonly nodes: NodesService) {}

  @Post()
  @RequireAdmin('nodes')
  @ApiProblems(problems.idempotencyKeyReused, problems.credentialRevoked, problems.credentialExpired)
  @ApiHeader({
    name: 'Idempotency-Key',
    required: false,
    schema: { type: 'string', pattern: IDEMPOTENCY_KEY_PATTERN, maxLength: MAX_IDEMPOTENCY_KEY_LENGTH },
    description: 'A value of your own, such as a UUID, that makes the request safe to repeat for 24 hours.',
  })
  @ApiOperation({
    summary: 'Register a node',
    description:
      'The api_key is shown only in this response. The node sends X-API-Key: node_id:api_key. Repeated with the same ' +
      'Idempotency-Key and body within 24 hours, the response is the same node with a new api_key, because keys are ' +
      'not stored: the node is rotated with the default overlap. It is 409 when the node was revoked or has expired.',
  })
  @ApiCreatedResponse({ type: IssuedNodeResponse })
  async registerNode(
    @Req() request: Request,
    @Res({ passthrough: true }) response: Response,
    @Body() body: RegisterNodeRequest,
  ): Promise<IssuedNodeResponse> {
    const registration = toRegistration(body);
    const { node, key } = await this.nodes.registerNode(registration, toActor(request), readIdempotencyKey(request));
    response.location(`/api/v0/admin/nodes/${node.id}`);
    return IssuedNodeResponse.fromIssued(node, key);
  }

  @Get()
  @RequireAdmin('nodes')
  @ApiOperation({ summary: 'List nodes', description: 'Includes revoked nodes: see revoked_at.' })
  @ApiOkResponse({ type: NodePageResponse })
  async listNodes(@Query() query: NodesQuery): Promise<NodePageResponse> {
    return NodePageResponse.from(await this.nodes.listNodes(toPageRequest(query), query.household_id));
  }

  @Get(':node_id')
  @RequireAdmin('nodes')
  @ApiProblems(problems.notFound)
  @ApiParam({ name: 'node_id', format: 'uuid' })
  @ApiOperation({ summary: 'Get a node' })
  @ApiOkResponse({ type: NodeResponse })
  async getNode(@Param('node_id') id: string): Promise<NodeResponse> {
    return NodeResponse.from(await this.nodes.findNode(id));
  }

  @Patch(':node_id')
  @RequireAdmin('nodes')
  @ApiProblems(problems.notFound, problems.credentialRevoked)
  @ApiParam({ name: 'node_id', format: 'uuid' })
  @ApiOperation({ summary: 'Change the room, the name or the expiry of a node' })
  @ApiOkResponse({ type: NodeResponse })
  async updateNode(
    @Req() request: Request,
    @Param('node_id') id: string,
    @Body() body: UpdateNodeRequest,
  ): Promise<NodeResponse> {
    const node = await this.nodes.updateNode(id, toChange(body), toActor(request));
    return NodeResponse.from(node);
  }

  @Delete(':node_id')
  @HttpCode(204)
  @RequireAdmin('nodes')
  @ApiProblems(problems.notFound)
  @ApiParam({ name: 'node_id', format: 'uuid' })
  @ApiOperation({
    summary: 'Revoke a node',
    description: 'Its key is refused from the next call on. The node stays in lists until it is purged.',
  })
  @ApiNoContentResponse()
  async revokeNode(@Req() request: Request, @Param('node_id') id: string): Promise<void> {
    await this.nodes.revokeNode(id, toActor(request));
  }

  @Post(':node_id/rotate')
  @HttpCode(200)
  @RequireAdmin('nodes')
  @ApiProblems(problems.notFound, problems.credentialRevoked, problems.credentialExpired)
  @ApiParam({ name: 'node_id', format: 'uuid' })
  @ApiBody({ type: RotateRequest, required: false })
  @ApiOperation({
    summary: 'Rotate the key of a node',
    description: 'The old key stays valid until the first use of the new one or the end of the overlap.',
  })
  @ApiOkResponse({ type: IssuedNodeResponse })
  async rotateNode(
    @Req() request: Request,
    @Param('node_id') id: string,
    @Body() body: RotateRequest,
  ): Promise<IssuedNodeResponse> {
    const overlapHours = body.overlap_hours ?? DEFAULT_OVERLAP_HOURS;
    const { node, key } = await this.nodes.rotateNodeKey(id, overlapHours, toActor(request));
    return IssuedNodeResponse.fromIssued(node, key);
  }
}
