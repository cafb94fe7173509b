// What a device calls about itself: it enrols with a code, and rotates its own key.
import { Controller, Post, Req, Body } from '@nestjs/common';
import { ApiProperty, ApiTags } from '@nestjs/swagger';
import type { Request } from 'express';
import { findOverlapEnd } from '../../domain/keys/key-lifecycle.js';
import type { IssuedCredential } from '../../domain/keys/key-record.js';
import { EnrolmentsService } from '../../domain/nodes/enrolments.service.js';
import { Node } from '../../domain/nodes/node.entity.js';
import { NodesService } from '../../domain/nodes/nodes.service.js';
import { toActor } from '../../foundation/access/actor.js';
import { getPrincipal } from '../../foundation/access/principals.js';
import { Public, RequireNodeItself } from '../../foundation/access/route-decorators.js';
import { HOUSEHOLD_ID, ID, NULLABLE_MOMENT, TextField } from '../../foundation/common/fields.js';
import { EXAMPLES } from '../../foundation/common/names.js';
import { ApiIdempotencyKey, readIdempotencyKey } from '../../foundation/http/validation.js';
import { problems, THROTTLE_PROBLEMS } from '../../foundation/problems/problems.js';

/** A code has ten characters; people may type hyphens and blanks between them. */
const MAX_CODE_LENGTH = 64;

class EnrolNodeRequest {
  @TextField(MAX_CODE_LENGTH, {
    description: 'in any letter case, with or without the hyphen; O is read as 0, I and L as 1',
    example: EXAMPLES.enrolmentCode,
  })
  code!: string;
}

class EnrolledNodeResponse {
  @ApiProperty(ID) node_id!: string;
  @ApiProperty({ description: 'shown only in this response', example: 'pa_node_kJ3…' }) api_key!: string;
  @ApiProperty(HOUSEHOLD_ID) household_id!: string;

  static from({ credential: { id, householdId }, key }: IssuedCredential<Node>): EnrolledNodeResponse {
    return { node_id: id, api_key: key, household_id: householdId };
  }
}

class RotatedNodeResponse extends EnrolledNodeResponse {
  @ApiProperty({ ...NULLABLE_MOMENT, description: 'when the old key ends at the latest' })
  previous_key_expires_at!: string | null;

  static fromRotated(issued: IssuedCredential<Node>): RotatedNodeResponse {
    const end = findOverlapEnd(issued.credential);
    return { ...EnrolledNodeResponse.from(issued), previous_key_expires_at: end?.toISOString() ?? null };
  }
}

@ApiTags('nodes')
@Controller('api/v0/nodes')
export class NodesController {
  constructor(
    private readonly enrolments: EnrolmentsService,
    private readonly nodes: NodesService,
  ) {}

  @Post('enrol')
  @Public({
    summary: 'Enrol a node with a code',
    description:
      'Exchanges the code that an operator issued for the credential of a new node, once. 404: the code is unknown, has ' +
      'expired or was cancelled; these look alike. 409 `enrolment_used`: the code was used before, which is audited as ' +
      '`node.enrolment.reused`, because two devices have seen it. Wrong codes are throttled by network, and altogether.',
    refusals: [
      problems.notFound,
      problems.enrolmentUsed,
      problems.credentialRevoked,
      problems.credentialExpired,
      ...THROTTLE_PROBLEMS,
    ],
    creates: EnrolledNodeResponse,
  })
  @ApiIdempotencyKey(
    'A value of the device’s own, such as a UUID. The same call within 10 minutes gets a new key of the same node, and the ' +
      'former key ends: for a device that lost the response.',
  )
  async enrolNode(@Req() request: Request, @Body() { code }: EnrolNodeRequest): Promise<EnrolledNodeResponse> {
    const issued = await this.enrolments.enrolNode(code, toActor(request), readIdempotencyKey(request));
    request.res?.location(`/api/v0/admin/nodes/${issued.credential.id}`);
    return EnrolledNodeResponse.from(issued);
  }

  @Post('me/rotate')
  @RequireNodeItself({
    summary: 'Rotate one’s own key',
    description:
      'For a device that is not reached by an operator. The new key is valid at once, and the old one until the first use of ' +
      'the new one, or for a day: a device that lost the response calls again with the key that it has. Keep both until a ' +
      'service has accepted the new one. At most 20 an hour.',
    refusals: [problems.credentialExpired, problems.credentialRevoked, ...THROTTLE_PROBLEMS],
    returns: RotatedNodeResponse,
  })
  async rotateOwnKey(@Req() request: Request): Promise<RotatedNodeResponse> {
    const { nodeId } = getPrincipal(request, 'node');
    return RotatedNodeResponse.fromRotated(await this.nodes.rotateOwnKey(nodeId, toActor(request)));
  }
}
