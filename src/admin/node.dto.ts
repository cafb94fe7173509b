import { ApiProperty } from '@nestjs/swagger';
import { EXAMPLES } from '../common/examples.js';
import { ExpiresAtField, LabelField, parseMoment, UuidField } from '../common/fields.js';
import { PageQuery, createPageResponse } from '../http/page.js';
import type { NodeChange, NodeRegistration, NodeDevice } from '../nodes/nodes.service.js';
import { KeyResponse } from './key.dto.js';

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
