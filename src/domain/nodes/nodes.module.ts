/**
 * The node door: `X-API-Key: node_id:api_key`, split at the first colon. And the routes by which other services have such a
 * key validated, and a device gets its key for a code.
 */
import { Body, Controller, Inject, Injectable, Post, Req, Module } from '@nestjs/common';
import { PassportStrategy } from '@nestjs/passport';
import { ApiOperation, ApiProperty, ApiPropertyOptional, ApiTags } from '@nestjs/swagger';
import { TypeOrmModule } from '@nestjs/typeorm';
import type { Request } from 'express';
import { toActor, getPrincipal, type NodePrincipal, type Principal } from '../../foundation/access/actor.js';
import { createRefusal, Doors, HeaderKeyStrategy } from '../../foundation/access/doors.js';
import { Answers, InternalController, Public, RequireNode } from '../../foundation/access/require.js';
import { TARGET_HEADER } from '../../foundation/access/route-declarations.js';
import { HOUSEHOLD_ID, ID, TARGETS, TextField } from '../../foundation/common/fields.js';
import { EXAMPLES, SERVICE_NAME } from '../../foundation/common/names.js';
import { ApiIdempotencyKey, readIdempotencyKey } from '../../foundation/http/validation.js';
import { provideKeyStore } from '../keys/key-store.js';
import type { IssuedCredential } from '../keys/key-record.js';
import { ApiProblems } from '../../foundation/problems/api-problems.js';
import { problems } from '../../foundation/problems/problems.js';
import { Freshness, wantsFreshVerdict } from '../revocation/propagation.js';
import { EnrolmentsService } from './enrolments.service.js';
import { NodeEnrolment } from './node-enrolment.entity.js';
import { Node } from './node.entity.js';
import { NODE_KEYS, type NodeKeys, NODE_KEY_KIND, NodesService } from './nodes.service.js';

@Injectable()
class NodeStrategy extends PassportStrategy(HeaderKeyStrategy, 'node') {
  constructor(
    doors: Doors,
    @Inject(NODE_KEYS) private readonly keys: NodeKeys,
    private readonly freshness: Freshness,
  ) {
    super('X-API-Key');
    doors.install('node', this);
  }

  async validate(request: Request, credential: string): Promise<NodePrincipal> {
    const colon = credential.indexOf(':');
    if (colon < 1 || colon === credential.length - 1) throw createRefusal('node', 'malformed');
    const nodeId = credential.slice(0, colon).toLowerCase();
    const isFresh = wantsFreshVerdict(request);
    if (isFresh) await this.freshness.noteArrival(request);
    const named = request.headers[TARGET_HEADER];
    const target = SERVICE_NAME.isName(named) ? named : undefined;
    const verdict = await this.keys.verifier.verifyKey(nodeId, credential.slice(colon + 1), { target }, isFresh);
    if (!verdict.valid) {
      const isViolation = verdict.reason === 'violation';
      const reason = isViolation ? 'target' : verdict.reason;
      if (!verdict.identity) throw createRefusal('node', reason);
      this.keys.verifier.recordRefusal(nodeId, reason, toActor(request));
      const fields = { node_id: nodeId, household_id: verdict.identity.household_id };
      throw createRefusal('node', reason, { ...fields, called_service: isViolation ? target : undefined });
    }
    const { identity, rememberable } = verdict;
    const { household_id: householdId, targets } = identity;
    const forwarder = request.user as Principal | undefined;
    const forwardedBy = forwarder?.door === 'app' ? forwarder.caller : null;
    this.keys.verifier.recordUse(nodeId, forwardedBy ?? target ?? null);
    return { door: 'node', nodeId, householdId, targets, forwardedBy, rememberable };
  }
}

class ValidNodeResponse {
  @ApiProperty({ enum: [true] }) valid!: true;
  @ApiProperty(ID) node_id!: string;
  @ApiProperty(HOUSEHOLD_ID) household_id!: string;
  @ApiPropertyOptional(TARGETS) targets?: readonly string[];
}

@InternalController()
class ValidateNodeController {
  constructor(private readonly freshness: Freshness) {}

  @Post('validate-node')
  @RequireNode()
  @ApiOperation({
    summary: 'Validate the key of a node',
    description:
      'Forward the X-API-Key that a node sent, without a body, and name yourself in X-Platform-Target: a node with ' +
      '`targets` is refused at any other service. If you also send your own app credential for this ' +
      'service, both must be valid.',
  })
  @Answers(200, ValidNodeResponse)
  validateNode(@Req() request: Request): ValidNodeResponse {
    const { nodeId, householdId, targets, rememberable } = getPrincipal(request, 'node');
    this.freshness.setHeaders(request, rememberable);
    return { valid: true, node_id: nodeId, household_id: householdId, ...(targets && { targets }) };
  }
}

/** Room for hyphens and blanks between the ten characters. */
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

@ApiTags('auth')
@Controller('api/v0/nodes')
class EnrolController {
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

@Module({
  imports: [TypeOrmModule.forFeature([Node, NodeEnrolment])],
  controllers: [ValidateNodeController, EnrolController],
  providers: [provideKeyStore(NODE_KEYS, Node, NODE_KEY_KIND), NodesService, EnrolmentsService, NodeStrategy],
  exports: [NodesService, EnrolmentsService],
})
export class NodesModule {}
