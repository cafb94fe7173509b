import { ApiProperty } from '@nestjs/swagger';
import { ExpiresAtField, LabelField, parseMoment, UuidField } from '../common/fields.js';
import { PageQuery, createPageResponse } from '../http/page.js';
import type { NodeDevice } from '../nodes/node-device.entity.js';
import type { NodeChange, NodeRegistration } from '../nodes/nodes.service.js';
import { KeyResponse } from './key.dto.js';

const HOUSEHOLD = '5b1c7a9e-0d35-4c8e-9a57-6f0b1f4f2a10';

export class RegisterNodeRequest {
  @UuidField({ example: HOUSEHOLD })
  household_id!: string;

  @LabelField('kitchen')
  room!: string;

  @LabelField('speaker')
  name!: string;

  @ExpiresAtField()
  expires_at?: string | null;
}

export class UpdateNodeRequest {
  @LabelField('living room', true)
  room?: string;

  @LabelField('lamp', true)
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
  @UuidField({ example: HOUSEHOLD, optional: true, description: 'only nodes of this household' })
  household_id?: string;
}

export class NodeResponse extends KeyResponse {
  @ApiProperty({ type: String, format: 'uuid', example: '01985f4e-7c3a-7b52-9d1e-2f6a8c4b0d11' })
  node_id!: string;

  @ApiProperty({ type: String, format: 'uuid', example: HOUSEHOLD })
  household_id!: string;

  @ApiProperty({ example: 'kitchen' })
  room!: string;

  @ApiProperty({ example: 'speaker' })
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
