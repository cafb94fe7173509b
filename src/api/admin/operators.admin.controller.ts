import { Body, Delete, Get, Param, Patch, Post, Query, Req } from '@nestjs/common';
import { ApiProperty } from '@nestjs/swagger';
import type { Request } from 'express';
import { toActor } from '../../foundation/access/actor.js';
import { getPrincipal } from '../../foundation/access/principals.js';
import { AdminController, RequireAdmin } from '../../foundation/access/route-decorators.js';
import { type OperatorScope, OPERATOR_SCOPES, sortOperatorScopes, EXAMPLES } from '../../foundation/common/names.js';
import {
  ExpiresAtField,
  ID,
  OperatorNameField,
  parseMoment,
  OperatorScopesField,
} from '../../foundation/common/fields.js';
import type { IssuedCredential } from '../../domain/keys/key-record.js';
import { createPageResponse, SortField, toPageRequest } from '../../foundation/http/page.dto.js';
import type { Operator } from '../../domain/operators/operator.entity.js';
import { OperatorsService, type OperatorChange, type AdminCaller } from '../../domain/operators/operators.service.js';
import { OperatorPasskeys } from '../../domain/operators/operator-passkeys.service.js';
import { problems } from '../../foundation/problems/problems.js';
import { PasskeysResponse } from '../account/passkeys.controller.js';
import {
  describeFinish,
  describeSharedRotation,
  KeyResponse,
  KeysQuery,
  RotateRequest,
  toKeyFilter,
} from './key.dto.js';

export class IssueOperatorRequest {
  @OperatorNameField() name!: string;
  @OperatorScopesField() scopes!: OperatorScope[];
  @ExpiresAtField() expires_at?: string | null;
}

export class UpdateOperatorRequest {
  @OperatorScopesField({ optional: true }) scopes?: OperatorScope[];
  @ExpiresAtField() expires_at?: string | null;
}

function toOperatorChange({ scopes, expires_at }: UpdateOperatorRequest): OperatorChange {
  return {
    ...(scopes !== undefined && { scopes: sortOperatorScopes(scopes) }),
    ...(expires_at !== undefined && { expiresAt: parseMoment(expires_at) }),
  };
}

class OperatorsQuery extends KeysQuery {
  @SortField('KeyOrder') sort?: string;
  @OperatorNameField({ optional: true }) name?: string;
}

export class OperatorResponse extends KeyResponse {
  @ApiProperty(ID) operator_id!: string;
  @ApiProperty({ description: 'in lower case', example: EXAMPLES.operator }) name!: string;

  @ApiProperty({ enum: OPERATOR_SCOPES, enumName: 'OperatorScope', isArray: true, example: ['read', 'nodes'] })
  scopes!: OperatorScope[];

  static from(operator: Operator): OperatorResponse {
    return {
      operator_id: operator.id,
      name: operator.name,
      scopes: operator.scopes,
      ...KeyResponse.toKeyFields(operator),
    };
  }
}

export class IssuedOperatorResponse extends OperatorResponse {
  @ApiProperty({ description: 'shown only in this response', example: 'pa_admin_Zt5…' }) api_key!: string;

  static fromIssued({ credential, key }: IssuedCredential<Operator>): IssuedOperatorResponse {
    return { ...OperatorResponse.from(credential), api_key: key };
  }
}

class OperatorPageResponse extends createPageResponse(OperatorResponse) {}

@AdminController('/operators')
export class OperatorsAdminController {
  constructor(
    private readonly operators: OperatorsService,
    private readonly passkeys: OperatorPasskeys,
  ) {}

  @Post()
  @RequireAdmin('operators', {
    summary: 'Issue an operator key',
    description:
      'The api_key is shown only in this response. The operator sends it as X-Admin-Key. An operator issues keys only to operators ' +
      'with no scope that it lacks, and with no later expiry than its own.',
    refusals: [problems.operatorExists, problems.exceedsOwnRights],
    creates: IssuedOperatorResponse,
  })
  async issueOperator(@Req() request: Request, @Body() body: IssueOperatorRequest) {
    const { name, scopes, expires_at = null } = body;
    const rights = { scopes: sortOperatorScopes(scopes), expiresAt: parseMoment(expires_at) };
    const issued = await this.operators.issueOperator({ name, ...rights }, toCaller(request));
    request.res?.location(`/api/v0/admin/operators/${issued.credential.id}`);
    return IssuedOperatorResponse.fromIssued(issued);
  }

  @Get()
  @RequireAdmin('operators', {
    summary: 'List operators',
    description: 'Includes revoked operators: see revoked_at.',
    returns: OperatorPageResponse,
  })
  async listOperators(@Query() query: OperatorsQuery): Promise<OperatorPageResponse> {
    const page = await this.operators.listOperators(toPageRequest(query), toKeyFilter(query), query.name);
    return OperatorPageResponse.from(page);
  }

  @Get(':operator_id')
  @RequireAdmin('operators', { summary: 'Get an operator', refusals: [problems.notFound], returns: OperatorResponse })
  async getOperator(@Param('operator_id') id: string): Promise<OperatorResponse> {
    return OperatorResponse.from(await this.operators.keys.requireCredential(id));
  }

  @Patch(':operator_id')
  @RequireAdmin('operators', {
    summary: 'Change the scopes or the expiry of an operator',
    description: 'Takes effect on the next call. An operator manages only operators with no more rights than its own.',
    refusals: [problems.notFound, problems.exceedsOwnRights, problems.credentialRevoked],
    returns: OperatorResponse,
  })
  async updateOperator(@Req() request: Request, @Param('operator_id') id: string, @Body() body: UpdateOperatorRequest) {
    return OperatorResponse.from(await this.operators.updateOperator(id, toOperatorChange(body), toCaller(request)));
  }

  @Delete(':operator_id')
  @RequireAdmin('operators', {
    summary: 'Revoke an operator',
    description: 'Its key is refused from the next call on. The operator stays in lists until it is purged.',
    refusals: [problems.notFound, problems.exceedsOwnRights],
  })
  async revokeOperator(@Req() request: Request, @Param('operator_id') id: string): Promise<void> {
    await this.operators.revokeOperator(id, toCaller(request));
  }

  @Post(':operator_id/rotate')
  @RequireAdmin('operators', describeSharedRotation('an operator', IssuedOperatorResponse, problems.exceedsOwnRights))
  async rotateOperator(
    @Req() request: Request,
    @Param('operator_id') id: string,
    @Body() { overlap_hours }: RotateRequest,
  ) {
    const issued = await this.operators.rotateOperatorKey(id, overlap_hours, toCaller(request));
    return IssuedOperatorResponse.fromIssued(issued);
  }

  @Post(':operator_id/finish-rotation')
  @RequireAdmin('operators', describeFinish('an operator', problems.exceedsOwnRights))
  async finishOperatorRotation(@Req() request: Request, @Param('operator_id') id: string): Promise<void> {
    await this.operators.finishOperatorRotation(id, toCaller(request));
  }

  @Get(':operator_id/passkeys')
  @RequireAdmin('operators', {
    summary: 'List the passkeys of an operator',
    description:
      'The console asks an operator with a passkey for it, beside the key. An operator adds a passkey there; the API ' +
      'accepts the key alone, because programs call it.',
    refusals: [problems.notFound],
    returns: PasskeysResponse,
  })
  async listOperatorPasskeys(@Param('operator_id') id: string): Promise<PasskeysResponse> {
    const operator = await this.operators.keys.requireCredential(id);
    return PasskeysResponse.from(await this.passkeys.listPasskeys(operator.id));
  }

  @Delete(':operator_id/passkeys/:passkey_id')
  @RequireAdmin('operators', {
    summary: 'Remove a passkey of an operator',
    description:
      'For an operator who has lost it. The sessions of the console that began with it end. Without any passkey the ' +
      'key alone opens the console, so rotate a key that may be stolen too.',
    refusals: [problems.notFound, problems.exceedsOwnRights],
  })
  async removeOperatorPasskey(
    @Req() request: Request,
    @Param('operator_id') id: string,
    @Param('passkey_id') passkeyId: string,
  ): Promise<void> {
    await this.operators.removePasskey(id, passkeyId, toCaller(request));
  }
}

function toCaller(request: Request): AdminCaller {
  return { operator: getPrincipal(request, 'admin').operator, actor: toActor(request) };
}
