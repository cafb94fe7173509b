import { Body, Controller, Delete, Get, HttpCode, Param, Patch, Post, Query, Req, Res } from '@nestjs/common';
import {
  ApiBody,
  ApiCreatedResponse,
  ApiNoContentResponse,
  ApiOkResponse,
  ApiOperation,
  ApiParam,
  ApiTags,
} from '@nestjs/swagger';
import type { Request, Response } from 'express';
import { getPrincipal } from '../access/principals.js';
import { RequireAdmin } from '../access/require.js';
import { toActor } from '../access/actor.js';
import { parseMoment } from '../common/fields.js';
import { sortScopes } from '../common/names.js';
import { Environment } from '../config/environment.js';
import { toPageRequest } from '../http/page.js';
import { OperatorsService, type AdminCaller } from '../operators/operators.service.js';
import { ApiProblems } from '../problems/api-problems.js';
import { problems } from '../problems/problems.js';
import { RotateRequest } from './key.dto.js';
import * as dto from './operator.dto.js';

@ApiTags('admin')
@Controller('api/v0/admin/operators')
export class OperatorsAdminController {
  constructor(
    private readonly operators: OperatorsService,
    private readonly environment: Environment,
  ) {}

  @Post()
  @RequireAdmin('operators')
  @ApiProblems(problems.operatorExists, problems.exceedsOwnRights)
  @ApiOperation({
    summary: 'Add an operator',
    description:
      'The api_key is shown only in this response. The operator sends it as X-Admin-Key. An operator adds only operators ' +
      'with no scope that it lacks, and with no later expiry than its own.',
  })
  @ApiCreatedResponse({ type: dto.IssuedOperatorResponse })
  async addOperator(
    @Req() request: Request,
    @Res({ passthrough: true }) response: Response,
    @Body() { name, scopes, expires_at = null }: dto.AddOperatorRequest,
  ): Promise<dto.IssuedOperatorResponse> {
    const rights = { scopes: sortScopes(scopes), expiresAt: parseMoment(expires_at) };
    const { operator, key } = await this.operators.registerOperator({ name, ...rights }, toCaller(request));
    response.location(`/api/v0/admin/operators/${operator.id}`);
    return dto.IssuedOperatorResponse.fromIssued(operator, key);
  }

  @Get()
  @RequireAdmin('operators')
  @ApiOperation({ summary: 'List operators', description: 'Includes revoked operators: see revoked_at.' })
  @ApiOkResponse({ type: dto.OperatorPageResponse })
  async listOperators(@Query() query: dto.OperatorsQuery): Promise<dto.OperatorPageResponse> {
    return dto.OperatorPageResponse.from(await this.operators.listOperators(toPageRequest(query), query.name));
  }

  @Get(':operator_id')
  @RequireAdmin('operators')
  @ApiProblems(problems.notFound)
  @ApiParam({ name: 'operator_id', format: 'uuid' })
  @ApiOperation({ summary: 'Get an operator' })
  @ApiOkResponse({ type: dto.OperatorResponse })
  async getOperator(@Param('operator_id') id: string): Promise<dto.OperatorResponse> {
    return dto.OperatorResponse.from(await this.operators.findOperator(id));
  }

  @Patch(':operator_id')
  @RequireAdmin('operators')
  @ApiProblems(problems.notFound, problems.exceedsOwnRights, problems.credentialRevoked)
  @ApiParam({ name: 'operator_id', format: 'uuid' })
  @ApiOperation({
    summary: 'Change the scopes or the expiry of an operator',
    description: 'Takes effect on the next call. An operator manages only operators with no more rights than its own.',
  })
  @ApiOkResponse({ type: dto.OperatorResponse })
  async updateOperator(
    @Req() request: Request,
    @Param('operator_id') id: string,
    @Body() body: dto.UpdateOperatorRequest,
  ): Promise<dto.OperatorResponse> {
    return dto.OperatorResponse.from(
      await this.operators.updateOperator(id, dto.toOperatorChange(body), toCaller(request)),
    );
  }

  @Delete(':operator_id')
  @HttpCode(204)
  @RequireAdmin('operators')
  @ApiProblems(problems.notFound, problems.exceedsOwnRights)
  @ApiParam({ name: 'operator_id', format: 'uuid' })
  @ApiOperation({
    summary: 'Revoke an operator',
    description: 'Its key is refused from the next call on. The operator stays in lists, for the record.',
  })
  @ApiNoContentResponse()
  async revokeOperator(@Req() request: Request, @Param('operator_id') id: string): Promise<void> {
    await this.operators.revokeOperator(id, toCaller(request));
  }

  @Post(':operator_id/rotate')
  @HttpCode(200)
  @RequireAdmin('operators')
  @ApiProblems(problems.notFound, problems.exceedsOwnRights, problems.credentialRevoked, problems.credentialExpired)
  @ApiParam({ name: 'operator_id', format: 'uuid' })
  @ApiBody({ type: RotateRequest, required: false })
  @ApiOperation({
    summary: 'Rotate the key of an operator',
    description: 'The old key stays valid until the first use of the new one or the end of the overlap.',
  })
  @ApiOkResponse({ type: dto.IssuedOperatorResponse })
  async rotateOperator(
    @Req() request: Request,
    @Param('operator_id') id: string,
    @Body() body: RotateRequest,
  ): Promise<dto.IssuedOperatorResponse> {
    const overlapHours = body.overlap_hours ?? this.environment.keyOverlapHours;
    const { operator, key } = await this.operators.rotateOperatorKey(id, overlapHours, toCaller(request));
    return dto.IssuedOperatorResponse.fromIssued(operator, key);
  }
}

function toCaller(request: Request): AdminCaller {
  return { operator: getPrincipal(request, 'admin').operator, actor: toActor(request) };
}
