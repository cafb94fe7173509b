import { Body, Controller, Post, Req } from '@nestjs/common';
import { ApiOperation, ApiProperty, ApiTags } from '@nestjs/swagger';
import type { Request } from 'express';
import { toActor } from '../access/actor.js';
import { Answers, Public } from '../access/require.js';
import { EXAMPLES } from '../common/names.js';
import { TextField } from '../common/fields.js';
import { ApiIdempotencyKey, readIdempotencyKey } from '../http/idempotency-key.js';
import type { IssuedCredential } from '../keys/key-table.js';
import { ApiProblems } from '../problems/api-problems.js';
import { problems } from '../problems/problems.js';
import { EnrolmentsService } from './enrolments.service.js';
import type { NodeDevice } from './nodes.service.js';

/** Room for hyphens and blanks between the ten characters. */
const MAX_CODE_LENGTH = 64;

export class EnrolNodeRequest {
  @TextField(MAX_CODE_LENGTH, {
    description: 'in any letter case, with or without the hyphen; O is read as 0, I and L as 1',
    example: EXAMPLES.enrolmentCode,
  })
  code!: string;
}

export class EnrolledNodeResponse {
  @ApiProperty({ type: String, format: 'uuid', example: EXAMPLES.id }) node_id!: string;
  @ApiProperty({ description: 'shown only in this response', example: 'pa_node_kJ3…' }) api_key!: string;
  @ApiProperty({ type: String, format: 'uuid', example: EXAMPLES.householdId }) household_id!: string;

  static from({ credential: { id, householdId }, key }: IssuedCredential<NodeDevice>): EnrolledNodeResponse {
    return { node_id: id, api_key: key, household_id: householdId };
  }
}

@ApiTags('auth')
@Controller('api/v0/nodes')
export class EnrolController {
  constructor(private readonly enrolments: EnrolmentsService) {}

  @Post('enrol')
  @Public()
  @ApiIdempotencyKey(
    'A value of the device’s own, such as a UUID. The same call within 10 minutes gets a new key of the same node, and the ' +
      'former key ends: for a device that lost the response.',
  )
  @ApiProblems(
    problems.notFound,
    problems.enrolmentUsed,
    problems.credentialRevoked,
    problems.credentialExpired,
    problems.tooManyRequests,
  )
  @ApiOperation({
    summary: 'Enrol a node with a code',
    description:
      'Exchanges the code that an operator issued for the credential of a new node, once. 404: the code is unknown, has ' +
      'expired or was cancelled; these look alike. 409 `enrolment_used`: the code was used before, which is audited as ' +
      '`node.enrolment.reused`, because two devices have seen it. Wrong codes are throttled by network, and altogether.',
  })
  @Answers(201, EnrolledNodeResponse)
  async enrolNode(@Req() request: Request, @Body() { code }: EnrolNodeRequest): Promise<EnrolledNodeResponse> {
    const issued = await this.enrolments.enrolNode(code, toActor(request), readIdempotencyKey(request));
    request.res?.location(`/api/v0/admin/nodes/${issued.credential.id}`);
    return EnrolledNodeResponse.from(issued);
  }
}
