import { Body, Controller, Delete, Get, HttpCode, Param, Patch, Post, Query, Req, Res } from '@nestjs/common';
import {
  ApiBody,
  ApiCreatedResponse,
  ApiHeader,
  ApiNoContentResponse,
  ApiOkResponse,
  ApiOperation,
  ApiParam,
  ApiTags,
} from '@nestjs/swagger';
import type { Request, Response } from 'express';
import { ApiProblems } from '../problems/api-problems.js';
import { RequireAdmin } from '../access/require.js';
import { toActor } from '../access/actor.js';
import {
  IDEMPOTENCY_KEY_PATTERN,
  MAX_IDEMPOTENCY_KEY_LENGTH,
  readIdempotencyKey,
} from '../nodes/registration-retries.js';
import { toPageRequest } from '../http/page.js';
import { problems } from '../problems/problems.js';
import { Environment } from '../config/environment.js';
import { NodesService } from '../nodes/nodes.service.js';
import { RotateRequest } from './key.dto.js';
import * as dto from './node.dto.js';

@ApiTags('admin')
@Controller('api/v0/admin/nodes')
export class NodesAdminController {
  constructor(
    private readonly nodes: NodesService,
    private readonly environment: Environment,
  ) {}

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
  @ApiCreatedResponse({ type: dto.IssuedNodeResponse })
  async registerNode(
    @Req() request: Request,
    @Res({ passthrough: true }) response: Response,
    @Body() body: dto.RegisterNodeRequest,
  ): Promise<dto.IssuedNodeResponse> {
    const registration = dto.toRegistration(body);
    const { node, key } = await this.nodes.registerNode(registration, toActor(request), readIdempotencyKey(request));
    response.location(`/api/v0/admin/nodes/${node.id}`);
    return dto.IssuedNodeResponse.fromIssued(node, key);
  }

  @Get()
  @RequireAdmin('nodes')
  @ApiOperation({ summary: 'List nodes', description: 'Includes revoked nodes: see revoked_at.' })
  @ApiOkResponse({ type: dto.NodePageResponse })
  async listNodes(@Query() query: dto.NodesQuery): Promise<dto.NodePageResponse> {
    return dto.NodePageResponse.from(await this.nodes.listNodes(toPageRequest(query), query.household_id));
  }

  @Get(':node_id')
  @RequireAdmin('nodes')
  @ApiProblems(problems.notFound)
  @ApiParam({ name: 'node_id', format: 'uuid' })
  @ApiOperation({ summary: 'Get a node' })
  @ApiOkResponse({ type: dto.NodeResponse })
  async getNode(@Param('node_id') id: string): Promise<dto.NodeResponse> {
    return dto.NodeResponse.from(await this.nodes.findNode(id));
  }

  @Patch(':node_id')
  @RequireAdmin('nodes')
  @ApiProblems(problems.notFound, problems.credentialRevoked)
  @ApiParam({ name: 'node_id', format: 'uuid' })
  @ApiOperation({ summary: 'Change the room, the name or the expiry of a node' })
  @ApiOkResponse({ type: dto.NodeResponse })
  async updateNode(
    @Req() request: Request,
    @Param('node_id') id: string,
    @Body() body: dto.UpdateNodeRequest,
  ): Promise<dto.NodeResponse> {
    const node = await this.nodes.updateNode(id, dto.toChange(body), toActor(request));
    return dto.NodeResponse.from(node);
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
  @ApiOkResponse({ type: dto.IssuedNodeResponse })
  async rotateNode(
    @Req() request: Request,
    @Param('node_id') id: string,
    @Body() body: RotateRequest,
  ): Promise<dto.IssuedNodeResponse> {
    const overlapHours = body.overlap_hours ?? this.environment.keyOverlapHours;
    const { node, key } = await this.nodes.rotateNodeKey(id, overlapHours, toActor(request));
    return dto.IssuedNodeResponse.fromIssued(node, key);
  }
}
