import { Controller, HttpCode, Post, Req } from '@nestjs/common';
import { ApiBody, ApiOkResponse, ApiOperation, ApiTags } from '@nestjs/swagger';
import type { Request } from 'express';
import { getPrincipal } from '../access/principals.js';
import { RequireApp } from '../access/require.js';
import { ChangesBody, ChangesResponse } from './changes.dto.js';
import { parseChangesRequest } from './changes.request.js';
import { ChangesService } from './changes.service.js';

@ApiTags('internal')
@Controller('internal')
export class ChangesController {
  constructor(private readonly changes: ChangesService) {}

  @Post('changes')
  @HttpCode(200)
  @RequireApp()
  @ApiOperation({
    summary: 'Poll for changes, for verifiers',
    description:
      'Hands the lease of this replica on: until `fresh_for_ms` after it sent this request, a verifier may answer from ' +
      'its memory, once it has evicted `changes` (or everything, on `reset`). `used` reports what it accepted meanwhile.',
  })
  @ApiBody({ type: ChangesBody, required: false })
  @ApiOkResponse({ type: ChangesResponse })
  async pollChanges(@Req() request: Request): Promise<ChangesResponse> {
    const { cursor, used } = parseChangesRequest(request.body as Buffer | undefined);
    this.changes.recordUses(used, getPrincipal(request, 'app').caller);
    return ChangesResponse.from(await this.changes.getChangesSince(cursor));
  }
}
