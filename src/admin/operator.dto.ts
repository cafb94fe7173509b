import { ApiProperty } from '@nestjs/swagger';
import { EXAMPLES } from '../common/examples.js';
import { ExpiresAtField, OperatorNameField, parseMoment, ScopesField } from '../common/fields.js';
import { SCOPES, sortScopes, type Scope } from '../common/names.js';
import { PageQuery, createPageResponse } from '../http/page.js';
import type { OperatorChange, Operator } from '../operators/operators.service.js';
import { KeyResponse } from './key.dto.js';

export class AddOperatorRequest {
  @OperatorNameField()
  name!: string;

  @ScopesField()
  scopes!: Scope[];

  @ExpiresAtField()
  expires_at?: string | null;
}

export class UpdateOperatorRequest {
  @ScopesField({ optional: true })
  scopes?: Scope[];

  @ExpiresAtField()
  expires_at?: string | null;
}

export function toOperatorChange({ scopes, expires_at }: UpdateOperatorRequest): OperatorChange {
  return {
    ...(scopes !== undefined && { scopes: sortScopes(scopes) }),
    ...(expires_at !== undefined && { expiresAt: parseMoment(expires_at) }),
  };
}

export class OperatorsQuery extends PageQuery {
  @OperatorNameField({ optional: true })
  name?: string;
}

export class OperatorResponse extends KeyResponse {
  @ApiProperty({ type: String, format: 'uuid', example: EXAMPLES.id })
  operator_id!: string;

  @ApiProperty({ description: 'in lower case', example: EXAMPLES.operator })
  name!: string;

  @ApiProperty({ type: 'array', items: { type: 'string', enum: [...SCOPES] }, example: ['read', 'nodes'] })
  scopes!: Scope[];

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
  @ApiProperty({ description: 'shown only in this response', example: 'pa_admin_Zt5…' })
  api_key!: string;

  static fromIssued(operator: Operator, key: string): IssuedOperatorResponse {
    return { ...OperatorResponse.from(operator), api_key: key };
  }
}

export class OperatorPageResponse extends createPageResponse<Operator, OperatorResponse>(OperatorResponse) {}
