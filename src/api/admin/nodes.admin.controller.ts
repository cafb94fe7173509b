import { Body, Delete, Get, Param, Patch, Post, Query, Req } from '@nestjs/common';
import { ApiProperty } from '@nestjs/swagger';
import type { Request } from 'express';
import { AdminController, RequireAdmin } from '../../foundation/access/route-decorators.js';
import { toActor } from '../../foundation/access/actor.js';
import type { Node } from '../../domain/nodes/node.entity.js';
import {
  MAX_SETS_OF_TARGETS,
  NodesService,
  type NodeChange,
  type NewNode,
  type RestrictedNodes,
} from '../../domain/nodes/nodes.service.js';
import { EXAMPLES } from '../../foundation/common/names.js';
import {
  ExpiresAtField,
  HOUSEHOLD_ID,
  ID,
  LabelField,
  NULLABLE_TARGETS,
  parseMoment,
  SearchField,
  TARGETS,
  TargetsField,
  UuidField,
} from '../../foundation/common/fields.js';
import { ApiIdempotencyKey, readIdempotencyKey } from '../../foundation/http/validation.js';
import { createPageResponse, CREATION_ORDER, SortField, toPageRequest } from '../../foundation/http/page.dto.js';
import type { IssuedCredential } from '../../domain/keys/key-record.js';
import { problems, refuseField } from '../../foundation/problems/problems.js';
import { describeExplanation, ExplainKeyQuery, ExplanationResponse } from './key-explanation.dto.js';
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

export abstract class NewNodeRequest {
  @UuidField({ example: EXAMPLES.householdId }) household_id!: string;
  @LabelField(EXAMPLES.room) room!: string;
  @LabelField(EXAMPLES.name) name!: string;
}

export class IssueNodeRequest extends NewNodeRequest {
  @ExpiresAtField() expires_at?: string | null;
  @TargetsField('; absent: those of NODE_TARGETS') targets?: string[] | null;
}

export class UpdateNodeRequest {
  @LabelField('living room', { optional: true }) room?: string;
  @LabelField('lamp', { optional: true }) name?: string;
  @ExpiresAtField() expires_at?: string | null;
  @TargetsField() targets?: string[] | null;
}

function toNewNode(request: IssueNodeRequest): NewNode {
  const { household_id, room, name, expires_at, targets } = request;
  return {
    householdId: household_id.toLowerCase(),
    room,
    name,
    expiresAt: parseMoment(expires_at ?? null),
    ...(targets !== undefined && { targets }),
  };
}

function toChange({ room, name, expires_at, targets }: UpdateNodeRequest): NodeChange {
  return {
    ...(room !== undefined && { room }),
    ...(name !== undefined && { name }),
    ...(expires_at !== undefined && { expiresAt: parseMoment(expires_at) }),
    ...(targets !== undefined && { targets }),
  };
}

const ORDERS = { ...CREATION_ORDER, household_id: 'householdId' };

class NodesQuery extends KeysQuery {
  @SortField('NodeOrder', ORDERS) sort?: string;

  @UuidField({ example: EXAMPLES.householdId, description: 'only nodes of this household' }, { optional: true })
  household_id?: string;

  @SearchField('kitchen', 'only nodes whose room, a slash and name contain this, in any case') search?: string;
}

export class NodeResponse extends KeyResponse {
  @ApiProperty(ID) node_id!: string;
  @ApiProperty(HOUSEHOLD_ID) household_id!: string;
  @ApiProperty({ example: EXAMPLES.room }) room!: string;
  @ApiProperty({ example: EXAMPLES.name }) name!: string;
  @ApiProperty(NULLABLE_TARGETS) targets!: string[] | null;

  static from(node: Node): NodeResponse {
    return {
      node_id: node.id,
      household_id: node.householdId,
      room: node.room,
      name: node.name,
      targets: node.targets,
      ...KeyResponse.toKeyFields(node),
    };
  }
}

class RestrictedNodesResponse implements RestrictedNodes {
  @ApiProperty(TARGETS) targets!: string[];
  @ApiProperty({ type: 'integer', description: 'live nodes with these targets', example: 12 }) live!: number;
  @ApiProperty({ type: String, format: 'uuid', description: 'one of them', example: EXAMPLES.id }) node_id!: string;
}

class TargetsOfNodesResponse {
  @ApiProperty({ type: [RestrictedNodesResponse], maxItems: MAX_SETS_OF_TARGETS }) items!: RestrictedNodesResponse[];
}

export class IssuedNodeResponse extends NodeResponse {
  @ApiProperty({ description: 'shown only in this response', example: 'pa_node_kJ3…' }) api_key!: string;

  static fromIssued({ credential, key }: IssuedCredential<Node>): IssuedNodeResponse {
    return { ...NodeResponse.from(credential), api_key: key };
  }
}

class NodePageResponse extends createPageResponse(NodeResponse) {}

@AdminController('/nodes')
export class NodesAdminController {
  constructor(private readonly nodes: NodesService) {}

  @Post()
  @ApiIdempotencyKey('A value of your own, such as a UUID, that makes the request safe to repeat for 24 hours.')
  @RequireAdmin('nodes', {
    summary: 'Issue a node credential',
    description:
      'Issues the key of a new node. The api_key is shown only in this response. The node sends X-API-Key: node_id:api_key. Repeated with the same ' +
      'Idempotency-Key and body within 24 hours, the response is the same node with a new api_key, because keys are ' +
      'not stored: the node is rotated with the default overlap. It is 409 when the node was revoked or has expired.',
    refusals: [problems.idempotencyKeyReused, problems.credentialRevoked, problems.credentialExpired],
    creates: IssuedNodeResponse,
  })
  async issueNode(@Req() request: Request, @Body() body: IssueNodeRequest): Promise<IssuedNodeResponse> {
    const node = toNewNode(body);
    const issued = await this.nodes.issueNode(node, toActor(request), readIdempotencyKey(request));
    request.res?.location(`/api/v0/admin/nodes/${issued.credential.id}`);
    return IssuedNodeResponse.fromIssued(issued);
  }

  @Get()
  @RequireAdmin('nodes', {
    summary: 'List nodes',
    description: 'Includes revoked nodes: see revoked_at.',
    returns: NodePageResponse,
  })
  async listNodes(@Query() query: NodesQuery): Promise<NodePageResponse> {
    const filter = { ...toKeyFilter(query), householdId: query.household_id, search: query.search };
    return NodePageResponse.from(await this.nodes.listNodes(toPageRequest(query, ORDERS), filter));
  }

  @Get('summary')
  @RequireAdmin('nodes', { summary: 'Count the nodes', returns: KeyCountsResponse })
  async countNodes(): Promise<KeyCountsResponse> {
    return this.nodes.keys.countKeys();
  }

  @Get('targets')
  @RequireAdmin('nodes', {
    summary: 'List the sets of targets that live nodes have',
    description: 'The most frequent ones first. All other live nodes are accepted at every service.',
    returns: TargetsOfNodesResponse,
  })
  async listTargetsOfNodes(): Promise<TargetsOfNodesResponse> {
    return { items: await this.nodes.countRestrictedNodes() };
  }

  @Get(':node_id')
  @RequireAdmin('nodes', { summary: 'Get a node', refusals: [problems.notFound], returns: NodeResponse })
  async getNode(@Param('node_id') id: string): Promise<NodeResponse> {
    return NodeResponse.from(await this.nodes.keys.requireCredential(id));
  }

  @Get(':node_id/explain')
  @RequireAdmin('nodes', describeExplanation('node', 'Name the service that refused it as target.'))
  async explainNode(@Param('node_id') id: string, @Query() asked: ExplainKeyQuery): Promise<ExplanationResponse> {
    return ExplanationResponse.from(await this.nodes.keys.explainCredential(id, asked));
  }

  @Patch(':node_id')
  @RequireAdmin('nodes', {
    summary: 'Change the room, the name, the expiry or the targets of a node',
    description:
      'Another expiry or other targets hold from the next call on: the answer waits until no replica and no verifier ' +
      'accepts the node by the former ones.',
    refusals: [problems.notFound, problems.credentialRevoked],
    returns: NodeResponse,
  })
  async updateNode(@Req() request: Request, @Param('node_id') id: string, @Body() body: UpdateNodeRequest) {
    if (request.body === undefined) refuseField('', 'must be a JSON object');
    const node = await this.nodes.keys.updateCredential(id, toChange(body), toActor(request));
    return NodeResponse.from(node);
  }

  @Delete(':node_id')
  @RequireAdmin('nodes', {
    summary: 'Revoke a node',
    description: 'Its key is refused from the next call on. The node stays in lists until it is purged.',
    refusals: [problems.notFound],
  })
  async revokeNode(@Req() request: Request, @Param('node_id') id: string): Promise<void> {
    await this.nodes.keys.revokeKey(id, toActor(request));
  }

  @Post('revoke')
  @RequireAdmin('nodes', describeRevocations('nodes'))
  async revokeNodes(@Req() request: Request, @Body() { ids }: RevokeKeysRequest): Promise<RevokedKeysResponse> {
    return { revoked: await this.nodes.keys.revokeKeys(ids, toActor(request)) };
  }

  @Post(':node_id/rotate')
  @RequireAdmin('nodes', describeRotation('a node', IssuedNodeResponse))
  async rotateNode(@Req() request: Request, @Param('node_id') id: string, @Body() { overlap_hours }: RotateRequest) {
    return IssuedNodeResponse.fromIssued(
      await this.nodes.keys.rotateKey(id, { overlapHours: overlap_hours }, toActor(request)),
    );
  }
}
