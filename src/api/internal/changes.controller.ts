import { Post, Req, Res } from '@nestjs/common';
import { ApiProperty } from '@nestjs/swagger';
import type { Request, Response } from 'express';
import { getPrincipal } from '../../foundation/access/principals.js';
import { InternalController, RequireApp } from '../../foundation/access/route-decorators.js';
import { Declares } from '../../foundation/access/route-declarations.js';
import { ID } from '../../foundation/common/fields.js';
import { CACHED_KIND_NAMES } from '../../foundation/common/key-kinds.js';
import { MAX_CURSOR_LENGTH } from '../../../packages/lease/src/change-feed.js';
import { VerifierPolls } from '../../domain/status/verifier-polls.js';
import { type LeasedAnswer, ChangesService } from './changes.service.js';
import { parseChangesRequest, CURSOR, ChangesBody } from './changes-request.js';

/** Names the caller, so that a verifier with another SERVICE_NAME, which would refuse every key, can report it. */
const CALLER_HEADER = 'X-Platform-Caller';

class ChangeResponse {
  @ApiProperty({ enum: [...CACHED_KIND_NAMES, 'session', 'user', 'signing_key'], enumName: 'ChangedKind' })
  kind!: string;
  @ApiProperty(ID) id!: string;
}

class ChangesResponse {
  @ApiProperty({ type: String, maxLength: MAX_CURSOR_LENGTH, example: CURSOR }) cursor!: string;

  @ApiProperty({ description: 'evict everything: the changes are unknown, or too many to list', example: false })
  reset!: boolean;

  @ApiProperty({ type: 'integer', description: '0: do not poll, and do not remember', example: 500 }) lease_ms!: number;

  @ApiProperty({ type: 'integer', description: 'counted from the sending of the request', example: 431 })
  fresh_for_ms!: number;

  @ApiProperty({ type: [ChangeResponse] }) changes!: ChangeResponse[];

  static from({ cursor, reset, changes, leaseMs, freshForMs }: LeasedAnswer): ChangesResponse {
    return {
      cursor,
      reset,
      lease_ms: leaseMs,
      fresh_for_ms: freshForMs,
      changes: changes.map(({ kind, id }) => ({ kind, id })),
    };
  }
}

@InternalController()
export class ChangesController {
  constructor(
    private readonly changes: ChangesService,
    private readonly polls: VerifierPolls,
  ) {}

  @Post('changes')
  @RequireApp({
    summary: 'Poll for changes, for verifiers',
    description:
      'Hands the lease of this replica on: until `fresh_for_ms` after it sent this request, a verifier may answer from ' +
      'its memory, once it has evicted `changes` (or everything, on `reset`). `used` reports what it accepted meanwhile.',
    optionalBody: ChangesBody,
    headers: { [CALLER_HEADER]: { description: 'the service that the key belongs to', schema: { type: 'string' } } },
    returns: ChangesResponse,
  })
  // Not logged, because each verifier polls several times a second.
  @Declares({ body: 'bytes', logged: 'none' })
  async pollChanges(@Req() request: Request, @Res({ passthrough: true }) response: Response): Promise<ChangesResponse> {
    const { cursor, used } = parseChangesRequest(request.body as Buffer | undefined);
    const { caller, appId } = getPrincipal(request, 'app');
    this.polls.notePoll(appId);
    response.setHeader(CALLER_HEADER, caller);
    this.changes.recordUses(used, caller);
    return ChangesResponse.from(await this.changes.getChangesSince(cursor));
  }
}
