import { Post, Req } from '@nestjs/common';
import { ApiProperty, ApiPropertyOptional } from '@nestjs/swagger';
import type { Request } from 'express';
import { Freshness } from '../../domain/revocation/freshness.js';
import { getPrincipal } from '../../foundation/access/principals.js';
import { InternalController, RequireNode } from '../../foundation/access/route-decorators.js';
import { ID, HOUSEHOLD_ID, TARGETS } from '../../foundation/common/fields.js';

class ValidNodeResponse {
  @ApiProperty({ enum: [true] }) valid!: true;
  @ApiProperty(ID) node_id!: string;
  @ApiProperty(HOUSEHOLD_ID) household_id!: string;
  @ApiPropertyOptional(TARGETS) targets?: readonly string[];
}

@InternalController()
export class ValidateNodeController {
  constructor(private readonly freshness: Freshness) {}

  @Post('validate-node')
  @RequireNode({
    summary: 'Validate the key of a node',
    description:
      'Forward the X-API-Key that a node sent, without a body, and name yourself in X-Platform-Target: a node with ' +
      '`targets` is refused at any other service. If you also send your own app credential for this ' +
      'service, as the button Authorize of this page does once you entered one, both must be valid: a 401 may then be ' +
      'about the app, and its `detail` names the headers that were refused.',
    returns: ValidNodeResponse,
  })
  validateNode(@Req() request: Request): ValidNodeResponse {
    const { nodeId, householdId, targets, rememberable } = getPrincipal(request, 'node');
    this.freshness.setHeaders(request, rememberable);
    return { valid: true, node_id: nodeId, household_id: householdId, ...(targets && { targets }) };
  }
}
