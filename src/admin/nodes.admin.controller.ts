import { Body, Controller, Delete, Get, HttpCode, Param, Patch, Post, Query, Req } from '@nestjs/common';
import {
  ApiBody,
  ApiCreatedResponse,
  ApiNoContentResponse,
  ApiOkResponse,
  ApiOperation,
  ApiParam,
  ApiTags,
} from '@nestjs/swagger';
import type { Request } from 'express';
import { ApiProblems } from '../access/api-problems.js';
import { RequireAdmin } from '../access/require.js';
import { toActor } from '../access/to-actor.js';
import { pageRequest } from '../common/page.js';
import { momentOf } from '../common/fields.js';
import { problems } from '../common/problems.js';
import { Environment } from '../config/environment.js';
import { NodesService } from '../nodes/nodes.service.js';
import { RotateRequest } from './key.messages.js';
import * as messages from './node.messages.js';

@ApiTags('admin: nodes')
@Controller('api/v0/admin/nodes')
export class NodesAdminController {
  constructor(
    private readonly nodes: NodesService,
    private readonly environment: Environment,
  ) {}

  @Post()
  @RequireAdmin()
  @ApiOperation({
    summary: 'Register a node',
    description: 'The api_key is shown this once. The node sends X-API-Key: node_id:api_key.',
  })
  @ApiCreatedResponse({ type: messages.IssuedNodeResponse })
  async register(
    @Req() request: Request,
    @Body() body: messages.RegisterNodeRequest,
  ): Promise<messages.IssuedNodeResponse> {
    const { household_id, room, name, expires_at } = body;
    const expiresAt = momentOf(expires_at ?? null);
    const registration = { householdId: household_id.toLowerCase(), room, name, expiresAt };
    const { node, key } = await this.nodes.register(registration, toActor(request));
    return messages.IssuedNodeResponse.issued(node, key);
  }

  @Get()
  @RequireAdmin()
  @ApiOperation({ summary: 'List nodes', description: 'Revoked ones too: see revoked_at.' })
  @ApiOkResponse({ type: messages.NodePageResponse })
  async list(@Query() query: messages.NodesQuery): Promise<messages.NodePageResponse> {
    return messages.NodePageResponse.from(await this.nodes.list(pageRequest(query), query.household_id));
  }

  @Get(':node_id')
  @RequireAdmin()
  @ApiProblems(problems.notFound)
  @ApiParam({ name: 'node_id', format: 'uuid' })
  @ApiOperation({ summary: 'One node' })
  @ApiOkResponse({ type: messages.NodeResponse })
  async one(@Param('node_id') id: string): Promise<messages.NodeResponse> {
    return messages.NodeResponse.from(await this.nodes.find(id));
  }

  @Patch(':node_id')
  @RequireAdmin()
  @ApiProblems(problems.notFound, problems.credentialRevoked)
  @ApiParam({ name: 'node_id', format: 'uuid' })
  @ApiOperation({ summary: 'Rename, move or limit a node' })
  @ApiOkResponse({ type: messages.NodeResponse })
  async update(
    @Req() request: Request,
    @Param('node_id') id: string,
    @Body() { room, name, expires_at }: messages.UpdateNodeRequest,
  ): Promise<messages.NodeResponse> {
    const change = {
      ...(room !== undefined && { room }),
      ...(name !== undefined && { name }),
      ...(expires_at !== undefined && { expiresAt: momentOf(expires_at) }),
    };
    const node = await this.nodes.update(id, change, toActor(request));
    return messages.NodeResponse.from(node);
  }

  @Delete(':node_id')
  @HttpCode(204)
  @RequireAdmin()
  @ApiProblems(problems.notFound)
  @ApiParam({ name: 'node_id', format: 'uuid' })
  @ApiOperation({
    summary: 'Revoke a node',
    description: 'Its key is refused from the next call on. The row stays for the record.',
  })
  @ApiNoContentResponse()
  async revoke(@Req() request: Request, @Param('node_id') id: string): Promise<void> {
    await this.nodes.keys.revoke(id, toActor(request));
  }

  @Post(':node_id/rotate')
  @HttpCode(200)
  @RequireAdmin()
  @ApiProblems(problems.notFound, problems.credentialRevoked, problems.credentialExpired)
  @ApiParam({ name: 'node_id', format: 'uuid' })
  @ApiBody({ type: RotateRequest, required: false })
  @ApiOperation({
    summary: 'Give a node a new key',
    description: 'The old key works until the new one is first used or the overlap ends.',
  })
  @ApiOkResponse({ type: messages.IssuedNodeResponse })
  async rotate(
    @Req() request: Request,
    @Param('node_id') id: string,
    @Body() body: RotateRequest,
  ): Promise<messages.IssuedNodeResponse> {
    const overlapHours = body.overlap_hours ?? this.environment.keyOverlapHours;
    const key = await this.nodes.keys.rotate(id, overlapHours, toActor(request));
    const node = await this.nodes.find(id);
    return messages.IssuedNodeResponse.issued(node, key);
  }
}
