import { Body, Delete, Get, Param, Patch, Post, Query, Req } from '@nestjs/common';
import { ApiProperty } from '@nestjs/swagger';
import type { Request } from 'express';
import { AdminController, RequireAdmin } from '../../foundation/access/route-decorators.js';
import { toActor } from '../../foundation/access/actor.js';
import type { AppCredential } from '../../domain/app-credentials/app-credential.entity.js';
import {
  AppCredentialsService,
  MAX_UNUSED_SCOPES,
  type UnusedScope,
} from '../../domain/app-credentials/app-credentials.service.js';
import { UNUSED_DAYS } from '../../foundation/config/limits.js';
import { EXAMPLES } from '../../foundation/common/names.js';
import {
  AppScopesField,
  ID,
  NULLABLE_APP_SCOPES,
  NULLABLE_MOMENT,
  NullableMomentField,
  parseMoment,
  ServiceNameField,
  SwitchField,
} from '../../foundation/common/fields.js';
import type { IssuedCredential } from '../../domain/keys/key-record.js';
import { createPageResponse, SortField, toPageRequest } from '../../foundation/http/page.dto.js';
import { problems, refuseField } from '../../foundation/problems/problems.js';
import { describeExplanation, ExplainAppQuery, ExplanationResponse } from './key-explanation.dto.js';
import {
  describeFinish,
  describeRevocations,
  describeSharedRotation,
  RevokeKeysRequest,
  KeyCountsResponse,
  KeyResponse,
  KeysQuery,
  RotateRequest,
  toKeyFilter,
} from './key.dto.js';

const ForUsersField = () =>
  SwitchField({
    description:
      'whether the caller gets tokens for users at the target (POST /internal/token); then scopes are needed',
    example: false,
  });

export class IssueAppCredentialRequest {
  @ServiceNameField(EXAMPLES.caller) caller!: string;
  @ServiceNameField(EXAMPLES.target) target!: string;

  @NullableMomentField(
    'refused from this moment on, whatever the rotations; null: never. Left out: each key lives for APP_KEY_DAYS',
  )
  expires_at?: string | null;

  @AppScopesField() scopes?: string[] | null;
  @ForUsersField() for_users?: boolean;
}

export class UpdateAppCredentialRequest {
  @AppScopesField() scopes?: string[] | null;
  @ForUsersField() for_users?: boolean;
}

class RotateAppCredentialRequest extends RotateRequest {
  @NullableMomentField(
    'rotates only if the last rotation was then; null: only if there was none. Of two callers that saw the same, one ' +
      'gets a key, and the other 409',
  )
  if_rotated_at?: string | null;
}

export class ScopeUseResponse {
  @ApiProperty({ example: EXAMPLES.appScope }) scope!: string;

  @ApiProperty({
    ...NULLABLE_MOMENT,
    description: 'when it was last asked for; written with a delay of up to half a minute',
  })
  last_used_at!: string | null;
}

class AppCredentialsQuery extends KeysQuery {
  @SortField('KeyOrder') sort?: string;
  @ServiceNameField(EXAMPLES.caller, { optional: true }) caller?: string;
  @ServiceNameField(EXAMPLES.target, { optional: true }) target?: string;
}

export class AppCredentialResponse extends KeyResponse {
  @ApiProperty(ID) app_id!: string;
  @ApiProperty({ example: EXAMPLES.caller }) caller!: string;
  @ApiProperty({ example: EXAMPLES.target }) target!: string;
  @ApiProperty(NULLABLE_APP_SCOPES) scopes!: readonly string[] | null;
  @ApiProperty({ description: 'whether the caller gets tokens for users at the target', example: false })
  for_users!: boolean;

  @ApiProperty({ ...NULLABLE_MOMENT, description: 'when such a token was last issued, to an hour' })
  for_users_used_at!: string | null;

  @ApiProperty({
    type: 'integer',
    nullable: true,
    description: 'days that each key lives (APP_KEY_DAYS when it was issued); null: a rotation leaves expires_at',
    example: null,
  })
  life_days!: number | null;

  @ApiProperty({
    type: [ScopeUseResponse],
    description: 'the scopes that the credential has, and others that it was asked for before, the latest 64',
  })
  scope_uses!: ScopeUseResponse[];

  static from(credential: AppCredential): AppCredentialResponse {
    return {
      app_id: credential.id,
      caller: credential.caller,
      target: credential.target,
      scopes: credential.scopes,
      for_users: credential.forUsers,
      // A row that was just created has no columns of uses.
      for_users_used_at: (credential.forUsersUsedAt as Date | null | undefined)?.toISOString() ?? null,
      life_days: credential.lifeDays,
      scope_uses: toScopeUses(credential),
      ...KeyResponse.toKeyFields(credential),
    };
  }
}

function toScopeUses({ scopes, scopeUses }: AppCredential): ScopeUseResponse[] {
  // A map, because a scope may have the name of what every object inherits (`constructor`).
  const uses = new Map(Object.entries(scopeUses));
  const names = new Set([...(scopes ?? []), ...uses.keys()]);
  return [...names].sort().map((scope) => ({ scope, last_used_at: uses.get(scope) ?? null }));
}

class UnusedScopeResponse implements UnusedScope {
  @ApiProperty(ID) app_id!: string;
  @ApiProperty({ example: EXAMPLES.caller }) caller!: string;
  @ApiProperty({ example: EXAMPLES.target }) target!: string;
  @ApiProperty({ example: EXAMPLES.appScope }) scope!: string;
}

class UnusedScopesResponse {
  @ApiProperty({ type: [UnusedScopeResponse], maxItems: MAX_UNUSED_SCOPES }) items!: UnusedScopeResponse[];
}

export class IssuedAppCredentialResponse extends AppCredentialResponse {
  @ApiProperty({ description: 'shown only in this response', example: 'pa_app_7Qd…' }) app_key!: string;

  static fromIssued({ credential, key }: IssuedCredential<AppCredential>): IssuedAppCredentialResponse {
    return { ...AppCredentialResponse.from(credential), app_key: key };
  }
}

class AppCredentialPageResponse extends createPageResponse(AppCredentialResponse) {}

@AdminController('/app-credentials')
export class AppCredentialsAdminController {
  constructor(private readonly credentials: AppCredentialsService) {}

  @Post()
  @RequireAdmin('apps', {
    summary: 'Issue a credential for a pair of services',
    description: 'The app_key is shown only in this response.',
    refusals: [problems.appCredentialExists],
    creates: IssuedAppCredentialResponse,
  })
  async issueAppCredential(@Req() request: Request, @Body() body: IssueAppCredentialRequest) {
    const { caller, target, expires_at, scopes = null, for_users: forUsers } = body;
    const issued = await this.credentials.issueAppCredential(
      { caller, target, expiresAt: parseMoment(expires_at), scopes, forUsers },
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

  @Get('unused-scopes')
  @RequireAdmin('apps', {
    summary: 'List the scopes of live credentials that were not asked for lately',
    description: `Not in ${UNUSED_DAYS} days, nor since the scopes were changed.`,
    returns: UnusedScopesResponse,
  })
  async listUnusedScopes(): Promise<UnusedScopesResponse> {
    return { items: await this.credentials.listUnusedScopes() };
  }

  @Get(':app_id')
  @RequireAdmin('apps', {
    summary: 'Get an app credential',
    refusals: [problems.notFound],
    returns: AppCredentialResponse,
  })
  async getAppCredential(@Param('app_id') id: string): Promise<AppCredentialResponse> {
    return AppCredentialResponse.from(await this.credentials.keys.requireCredential(id));
  }

  @Get(':app_id/explain')
  @RequireAdmin(
    'apps',
    describeExplanation(
      'app credential',
      'Name the service that refused it as target, and the scope that it asked for.',
    ),
  )
  async explainAppCredential(@Param('app_id') id: string, @Query() asked: ExplainAppQuery) {
    return ExplanationResponse.from(await this.credentials.keys.explainCredential(id, asked));
  }

  @Patch(':app_id')
  @RequireAdmin('apps', {
    summary: 'Change the scopes of an app credential, or whether it is for users',
    description:
      'The key stays. A change holds from the next call on: the answer waits until no replica and no verifier accepts ' +
      'the credential for the former ones.',
    refusals: [problems.notFound, problems.credentialRevoked],
    returns: AppCredentialResponse,
  })
  async updateAppCredential(
    @Req() request: Request,
    @Param('app_id') id: string,
    @Body() { scopes, for_users: forUsers }: UpdateAppCredentialRequest,
  ): Promise<AppCredentialResponse> {
    if (scopes === undefined && forUsers === undefined)
      refuseField('/scopes', 'must be sent: a list of scopes, or null; or for_users');
    const change = { scopes, forUsers };
    return AppCredentialResponse.from(await this.credentials.updateAppCredential(id, change, toActor(request)));
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
  async revokeAppCredentials(@Req() request: Request, @Body() { ids }: RevokeKeysRequest) {
    return { revoked: await this.credentials.keys.revokeKeys(ids, toActor(request)) };
  }

  @Post(':app_id/rotate')
  @RequireAdmin('apps', {
    ...describeSharedRotation('an app credential', IssuedAppCredentialResponse, problems.keyRotatedMeanwhile),
    optionalBody: RotateAppCredentialRequest,
  })
  async rotateAppCredential(
    @Req() request: Request,
    @Param('app_id') id: string,
    @Body() { overlap_hours, if_rotated_at }: RotateAppCredentialRequest,
  ) {
    const rotation = { overlapHours: overlap_hours, ifRotatedAt: parseMoment(if_rotated_at) };
    const issued = await this.credentials.keys.rotateKey(id, rotation, toActor(request));
    return IssuedAppCredentialResponse.fromIssued(issued);
  }

  @Post(':app_id/finish-rotation')
  @RequireAdmin('apps', describeFinish('an app credential'))
  async finishAppCredentialRotation(@Req() request: Request, @Param('app_id') id: string): Promise<void> {
    await this.credentials.keys.finishRotation(id, toActor(request));
  }
}
