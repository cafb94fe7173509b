import { Body, Controller, Delete, Get, HttpCode, Param, Post, Query, Req } from '@nestjs/common';
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
import { AppCredentialsService } from '../app-credentials/app-credentials.service.js';
import { pageRequest } from '../common/page.js';
import { momentOf } from '../common/fields.js';
import { problems } from '../common/problems.js';
import { Environment } from '../config/environment.js';
import * as messages from './app-credential.messages.js';
import { RotateRequest } from './key.messages.js';

@ApiTags('admin: app credentials')
@Controller('api/v0/admin/app-credentials')
export class AppCredentialsAdminController {
  constructor(
    private readonly credentials: AppCredentialsService,
    private readonly environment: Environment,
  ) {}

  @Post()
  @RequireAdmin()
  @ApiProblems(problems.appCredentialExists)
  @ApiOperation({ summary: 'Mint a credential for a pair of services', description: 'The app_key is shown this once.' })
  @ApiCreatedResponse({ type: messages.IssuedAppCredentialResponse })
  async mint(
    @Req() request: Request,
    @Body() body: messages.MintAppCredentialRequest,
  ): Promise<messages.IssuedAppCredentialResponse> {
    const { caller, target, expires_at } = body;
    const expiresAt = momentOf(expires_at ?? null);
    const { credential, key } = await this.credentials.mint(caller, target, expiresAt, toActor(request));
    return messages.IssuedAppCredentialResponse.issued(credential, key);
  }

  @Get()
  @RequireAdmin()
  @ApiOperation({ summary: 'List app credentials', description: 'Revoked ones too: see revoked_at.' })
  @ApiOkResponse({ type: messages.AppCredentialPageResponse })
  async list(@Query() query: messages.AppCredentialsQuery): Promise<messages.AppCredentialPageResponse> {
    const filter = { caller: query.caller, target: query.target };
    return messages.AppCredentialPageResponse.from(await this.credentials.list(pageRequest(query), filter));
  }

  @Get(':app_id')
  @RequireAdmin()
  @ApiProblems(problems.notFound)
  @ApiParam({ name: 'app_id', format: 'uuid' })
  @ApiOperation({ summary: 'One app credential' })
  @ApiOkResponse({ type: messages.AppCredentialResponse })
  async one(@Param('app_id') id: string): Promise<messages.AppCredentialResponse> {
    return messages.AppCredentialResponse.from(await this.credentials.find(id));
  }

  @Delete(':app_id')
  @HttpCode(204)
  @RequireAdmin()
  @ApiProblems(problems.notFound)
  @ApiParam({ name: 'app_id', format: 'uuid' })
  @ApiOperation({
    summary: 'Revoke an app credential',
    description: 'Its key is refused from the next call on. The row stays for the record.',
  })
  @ApiNoContentResponse()
  async revoke(@Req() request: Request, @Param('app_id') id: string): Promise<void> {
    await this.credentials.keys.revoke(id, toActor(request));
  }

  @Post(':app_id/rotate')
  @HttpCode(200)
  @RequireAdmin()
  @ApiProblems(problems.notFound, problems.credentialRevoked, problems.credentialExpired)
  @ApiParam({ name: 'app_id', format: 'uuid' })
  @ApiBody({ type: RotateRequest, required: false })
  @ApiOperation({
    summary: 'Give a pair a new key',
    description: 'The old key works until the new one is first used or the overlap ends.',
  })
  @ApiOkResponse({ type: messages.IssuedAppCredentialResponse })
  async rotate(
    @Req() request: Request,
    @Param('app_id') id: string,
    @Body() body: RotateRequest,
  ): Promise<messages.IssuedAppCredentialResponse> {
    const overlapHours = body.overlap_hours ?? this.environment.keyOverlapHours;
    const key = await this.credentials.keys.rotate(id, overlapHours, toActor(request));
    const credential = await this.credentials.find(id);
    return messages.IssuedAppCredentialResponse.issued(credential, key);
  }
}
