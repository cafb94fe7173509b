import { Controller, HttpCode, Post, Req } from '@nestjs/common';
import { ApiOkResponse, ApiOperation, ApiProperty, ApiTags } from '@nestjs/swagger';
import type { Request } from 'express';
import { Freshness } from '../revocation/freshness.js';
import { getPrincipal } from '../access/principals.js';
import { RequireNode } from '../access/require.js';
import { EXAMPLES } from '../common/examples.js';

export class ValidNodeResponse {
  @ApiProperty({ enum: [true] })
  valid!: true;

  @ApiProperty({ type: String, format: 'uuid', example: EXAMPLES.id })
  node_id!: string;

  @ApiProperty({ type: String, format: 'uuid', example: EXAMPLES.householdId })
  household_id!: string;
}

@ApiTags('internal')
@Controller('internal')
export class ValidateNodeController {
  constructor(private readonly freshness: Freshness) {}

  @Post('validate-node')
  @HttpCode(200)
  @RequireNode()
  @ApiOperation({
    summary: 'Validate the key of a node',
    description:
      'Forward the X-API-Key that a node sent, without a body. If you also send your own app credential for this ' +
      'service, both must be valid.',
  })
  @ApiOkResponse({ type: ValidNodeResponse })
  validateNode(@Req() request: Request): ValidNodeResponse {
    const { nodeId, householdId, rememberable } = getPrincipal(request, 'node');
    this.freshness.setHeaders(request, rememberable);
    return { valid: true, node_id: nodeId, household_id: householdId };
  }
}
