import { Body, Controller, Delete, Get, Param, Post, Query, Req } from '@nestjs/common';
import { ApiProperty, ApiTags } from '@nestjs/swagger';
import type { Request } from 'express';
import { RequireAdmin } from '../access/require.js';
import { toActor } from '../access/actor.js';
import { AppCredentialsService, type AppCredential } from '../app-credentials/app-credentials.service.js';
import { EXAMPLES } from '../common/examples.js';
import { ExpiresAtField, parseMoment, ServiceNameField } from '../common/fields.js';
import type { IssuedCredential } from '../keys/key-table.js';
import { createPageResponse, toPageRequest } from '../http/page.js';
import { problems } from '../problems/problems.js';
import {
  describeRevocations,
  describeRotation,
  RevokedKeysResponse,
  RevokeKeysRequest,
  KeyCountsResponse,
  KeyResponse,
  KeysQuery,
  RotateRequest,
  toKeyFilter,
} from './key.dto.js';

export class MintAppCredentialRequest {
  @ServiceNameField(EXAMPLES.caller)
  caller!: string;

  @ServiceNameField(EXAMPLES.target)
  target!: string;

  @ExpiresAtField()
  expires_at?: string | null;
}

export class AppCredentialsQuery extends KeysQuery {
  @ServiceNameField(EXAMPLES.caller, { optional: true })
  caller?: string;

  @ServiceNameField(EXAMPLES.target, { optional: true })
  target?: string;
}

export class AppCredentialResponse extends KeyResponse {
  @ApiProperty({ type: String, format: 'uuid', example: EXAMPLES.id })
  app_id!: string;

  @ApiProperty({ example: EXAMPLES.caller })
  caller!: string;

  @ApiProperty({ example: EXAMPLES.target })
  target!: string;

  static from(credential: AppCredential): AppCredentialResponse {
    return {
      app_id: credential.id,
      caller: credential.caller,
      target: credential.target,
      ...KeyResponse.toKeyFields(credential),
    };
  }
}

export class IssuedAppCredentialResponse extends AppCredentialResponse {
  @ApiProperty({ description: 'shown only in this response', example: 'pa_app_7Qd…' })
  app_key!: string;

  static fromIssued({ credential, key }: IssuedCredential<AppCredential>): IssuedAppCredentialResponse {
    return { ...AppCredentialResponse.from(credential), app_key: key };
  }
}

export class AppCredentialPageResponse extends createPageResponse<AppCredential, AppCredentialResponse>(
  AppCredentialResponse,
) {}

@ApiTags('admin')
@Controller('api/v0/admin/app-credentials')
export class AppCredentialsAdminController {
  constructor(private readonly credentials: AppCredentialsService) {}

  @Post()
  @RequireAdmin('apps', {
    summary: 'Mint a credential for a pair of services',
    description: 'The app_key is shown only in this response.',
    refusals: [problems.appCredentialExists],
    creates: IssuedAppCredentialResponse,
  })
  async mintAppCredential(
    @Req() request: Request,
    @Body() body: MintAppCredentialRequest,
  ): Promise<IssuedAppCredentialResponse> {
    const { caller, target, expires_at = null } = body;
    const issued = await this.credentials.issueAppCredential(
      { caller, target, expiresAt: parseMoment(expires_at) },
      toActor(request),
    );
    request.res?.location(`/api/v0/admin/app-credentials/${issued.credential.id}`);
    return IssuedAppCredentialResponse.fromIssued(issued);
  }

  @Get()
  @RequireAdmin('apps', {
    summary: 'List app credentials',
    description: 'Includes revoked credentials: see revoked_at.',
    returns: AppCredentialPageResponse,
  })
  async listAppCredentials(@Query() query: AppCredentialsQuery): Promise<AppCredentialPageResponse> {
    const filter = { ...toKeyFilter(query), caller: query.caller, target: query.target };
    return AppCredentialPageResponse.from(await this.credentials.listAppCredentials(toPageRequest(query), filter));
  }

  @Get('summary')
  @RequireAdmin('apps', { summary: 'Count the app credentials', returns: KeyCountsResponse })
  async countAppCredentials(): Promise<KeyCountsResponse> {
    return this.credentials.keys.countKeys();
  }

  @Get(':app_id')
  @RequireAdmin('apps', {
    summary: 'Get an app credential',
    refusals: [problems.notFound],
    returns: AppCredentialResponse,
  })
  async getAppCredential(@Param('app_id') id: string): Promise<AppCredentialResponse> {
    return AppCredentialResponse.from(await this.credentials.keys.findCredential(id));
  }

  @Delete(':app_id')
  @RequireAdmin('apps', {
    summary: 'Revoke an app credential',
    description: 'Its key is refused from the next call on. The credential stays in lists until it is purged.',
    refusals: [problems.notFound],
  })
  async revokeAppCredential(@Req() request: Request, @Param('app_id') id: string): Promise<void> {
    await this.credentials.keys.revokeKey(id, toActor(request));
  }

  @Post('revoke')
  @RequireAdmin('apps', describeRevocations('app credentials'))
  async revokeAppCredentials(
    @Req() request: Request,
    @Body() { ids }: RevokeKeysRequest,
  ): Promise<RevokedKeysResponse> {
    return { revoked: await this.credentials.keys.revokeKeys(ids, toActor(request)) };
  }

  @Post(':app_id/rotate')
  @RequireAdmin('apps', describeRotation('an app credential', IssuedAppCredentialResponse))
  async rotateAppCredential(
    @Req() request: Request,
    @Param('app_id') id: string,
    @Body() { overlap_hours }: RotateRequest,
  ): Promise<IssuedAppCredentialResponse> {
    return IssuedAppCredentialResponse.fromIssued(
      await this.credentials.keys.rotateKey(id, overlap_hours, toActor(request)),
    );
  }
}
