import { Body, Controller, Delete, Get, HttpCode, Param, Post, Query, Req, Res } from '@nestjs/common';
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
import { ApiProblems } from '../problems/api-problems.js';
import { RequireAdmin } from '../access/require.js';
import { toActor } from '../access/actor.js';
import { AppCredentialsService } from '../app-credentials/app-credentials.service.js';
import { toPageRequest } from '../http/page.js';
import { parseMoment } from '../common/fields.js';
import { problems } from '../problems/problems.js';
import { Environment } from '../config/environment.js';
import * as dto from './app-credential.dto.js';
import { RotateRequest } from './key.dto.js';

@ApiTags('admin')
@Controller('api/v0/admin/app-credentials')
export class AppCredentialsAdminController {
  constructor(
    private readonly credentials: AppCredentialsService,
    private readonly environment: Environment,
  ) {}

  @Post()
  @RequireAdmin('apps')
  @ApiProblems(problems.appCredentialExists)
  @ApiOperation({
    summary: 'Mint a credential for a pair of services',
    description: 'The app_key is shown only in this response.',
  })
  @ApiCreatedResponse({ type: dto.IssuedAppCredentialResponse })
  async mintAppCredential(
    @Req() request: Request,
    @Res({ passthrough: true }) response: Response,
    @Body() body: dto.MintAppCredentialRequest,
  ): Promise<dto.IssuedAppCredentialResponse> {
    const { caller, target, expires_at = null } = body;
    const { credential, key } = await this.credentials.issueAppCredential(
      { caller, target, expiresAt: parseMoment(expires_at) },
      toActor(request),
    );
    response.location(`/api/v0/admin/app-credentials/${credential.id}`);
    return dto.IssuedAppCredentialResponse.fromIssued(credential, key);
  }

  @Get()
  @RequireAdmin('apps')
  @ApiOperation({ summary: 'List app credentials', description: 'Includes revoked credentials: see revoked_at.' })
  @ApiOkResponse({ type: dto.AppCredentialPageResponse })
  async listAppCredentials(@Query() query: dto.AppCredentialsQuery): Promise<dto.AppCredentialPageResponse> {
    const filter = { caller: query.caller, target: query.target };
    return dto.AppCredentialPageResponse.from(await this.credentials.listAppCredentials(toPageRequest(query), filter));
  }

  @Get(':app_id')
  @RequireAdmin('apps')
  @ApiProblems(problems.notFound)
  @ApiParam({ name: 'app_id', format: 'uuid' })
  @ApiOperation({ summary: 'Get an app credential' })
  @ApiOkResponse({ type: dto.AppCredentialResponse })
  async getAppCredential(@Param('app_id') id: string): Promise<dto.AppCredentialResponse> {
    return dto.AppCredentialResponse.from(await this.credentials.findAppCredential(id));
  }

  @Delete(':app_id')
  @HttpCode(204)
  @RequireAdmin('apps')
  @ApiProblems(problems.notFound)
  @ApiParam({ name: 'app_id', format: 'uuid' })
  @ApiOperation({
    summary: 'Revoke an app credential',
    description: 'Its key is refused from the next call on. The credential stays in lists until it is purged.',
  })
  @ApiNoContentResponse()
  async revokeAppCredential(@Req() request: Request, @Param('app_id') id: string): Promise<void> {
    await this.credentials.revokeAppCredential(id, toActor(request));
  }

  @Post(':app_id/rotate')
  @HttpCode(200)
  @RequireAdmin('apps')
  @ApiProblems(problems.notFound, problems.credentialRevoked, problems.credentialExpired)
  @ApiParam({ name: 'app_id', format: 'uuid' })
  @ApiBody({ type: RotateRequest, required: false })
  @ApiOperation({
    summary: 'Rotate the key of an app credential',
    description: 'The old key stays valid until the first use of the new one or the end of the overlap.',
  })
  @ApiOkResponse({ type: dto.IssuedAppCredentialResponse })
  async rotateAppCredential(
    @Req() request: Request,
    @Param('app_id') id: string,
    @Body() body: RotateRequest,
  ): Promise<dto.IssuedAppCredentialResponse> {
    const overlapHours = body.overlap_hours ?? this.environment.keyOverlapHours;
    const { credential, key } = await this.credentials.rotateAppKey(id, overlapHours, toActor(request));
    return dto.IssuedAppCredentialResponse.fromIssued(credential, key);
  }
}
