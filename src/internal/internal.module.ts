/**
 * What other services ask instead of, or besides, one validation for each request: the feed of changes for the verifiers
 * that they embed, authorization for gateways, and introspection (RFC 7662).
 * Invariant (docs/decisions/0044): when the call that revoked a credential has answered, no verifier accepts it, because
 * no lease is handed on for longer than this replica holds it.
 */
import { Controller, Module, Post, Req, Res } from '@nestjs/common';
import { ApiBody, ApiOperation, ApiProperty, ApiPropertyOptional, ApiTags } from '@nestjs/swagger';
import type { Request, Response } from 'express';
import { getPrincipal } from '../access/principals.js';
import { Answers, RequireApp } from '../access/require.js';
import { AppCredentialsModule } from '../app-credentials/app-credentials.service.js';
import { EXAMPLES } from '../common/examples.js';
import { APP_SCOPE_SCHEMA } from '../common/names.js';
import { NodesModule } from '../nodes/nodes.module.js';
import { MAX_CURSOR_LENGTH } from '../../packages/lease/src/change-feed.js';
import { AuthorizeController } from './authorize.controller.js';
import { ChangesService, MAX_USES, parseChangesRequest, type LeasedAnswer } from './changes.service.js';
import { IntrospectController } from './introspect.controller.js';
import { ServerMetadataController } from './server-metadata.controller.js';

const CURSOR = `${'0123456789abcdef'.repeat(4)}/4711:4713:4711`;

/** Tells a verifier whose SERVICE_NAME is another one, which would refuse every key. A header, so that older ones ignore it. */
const CALLER_HEADER = 'X-Platform-Caller';

class UseBody {
  @ApiProperty({ enum: ['node', 'app'] }) kind!: 'node' | 'app';
  @ApiProperty({ type: String, format: 'uuid', example: EXAMPLES.id }) id!: string;
  @ApiProperty({ type: 'integer', description: 'clamped to 0 to 3,600,000', example: 1_200 }) ago_ms!: number;

  @ApiPropertyOptional({
    ...APP_SCOPE_SCHEMA,
    description: 'of an app: the scope that the call needed',
    example: EXAMPLES.appScope,
  })
  scope?: string;
}

/** For the OpenAPI document only: the body is parsed after authentication, by `parseChangesRequest`. */
class ChangesBody {
  @ApiPropertyOptional({
    type: String,
    description: 'the cursor of the last answer',
    maxLength: MAX_CURSOR_LENGTH,
    example: CURSOR,
  })
  cursor?: string;

  @ApiPropertyOptional({ type: [UseBody], maxItems: MAX_USES, description: 'keys that were accepted from memory' })
  used?: UseBody[];
}

class ChangeResponse {
  @ApiProperty({ enum: ['node', 'app', 'session', 'user', 'signing_key'] }) kind!: string;
  @ApiProperty({ type: String, format: 'uuid', example: EXAMPLES.id }) id!: string;
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

@ApiTags('internal')
@Controller('internal')
export class ChangesController {
  constructor(private readonly changes: ChangesService) {}

  @Post('changes')
  @RequireApp()
  @ApiOperation({
    summary: 'Poll for changes, for verifiers',
    description:
      'Hands the lease of this replica on: until `fresh_for_ms` after it sent this request, a verifier may answer from ' +
      'its memory, once it has evicted `changes` (or everything, on `reset`). `used` reports what it accepted meanwhile.',
  })
  @ApiBody({ type: ChangesBody, required: false })
  @Answers(200, ChangesResponse, {
    [CALLER_HEADER]: { description: 'the service that the key belongs to', schema: { type: 'string' } },
  })
  async pollChanges(@Req() request: Request, @Res({ passthrough: true }) response: Response): Promise<ChangesResponse> {
    const { cursor, used } = parseChangesRequest(request.body as Buffer | undefined);
    const { caller } = getPrincipal(request, 'app');
    response.setHeader(CALLER_HEADER, caller);
    this.changes.recordUses(used, caller);
    return ChangesResponse.from(await this.changes.getChangesSince(cursor));
  }
}

@Module({
  imports: [NodesModule, AppCredentialsModule],
  controllers: [ChangesController, AuthorizeController, IntrospectController, ServerMetadataController],
  providers: [ChangesService],
})
export class InternalModule {}
