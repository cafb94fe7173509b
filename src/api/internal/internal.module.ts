/**
 * What other services ask instead of, or besides, one validation for each request: the feed of changes for the verifiers
 * that they embed, authorization for gateways, and introspection (RFC 7662).
 * Terms: poll, cursor, lease, use (a key that a verifier accepted from its memory).
 * Invariant (docs/decisions/0044): when the call that revoked a credential has answered, no verifier accepts it, because
 * no lease is handed on for longer than this replica holds it.
 */
import { isUtf8 } from 'node:buffer';
import { Injectable, Module, Post, Req, Res } from '@nestjs/common';
import { ApiBody, ApiOperation, ApiProperty, ApiPropertyOptional } from '@nestjs/swagger';
import DataLoader from 'dataloader';
import type { Request, Response } from 'express';
import * as z from 'zod';
import { getPrincipal } from '../../foundation/access/actor.js';
import { Answers, InternalController, RequireApp } from '../../foundation/access/require.js';
import { Declares } from '../../foundation/access/route-declarations.js';
import { AppCredentialsModule } from '../../domain/app-credentials/app-credentials.module.js';
import { AppCredentialsService } from '../../domain/app-credentials/app-credentials.service.js';
import { ID } from '../../foundation/common/fields.js';
import { Clock } from '../../foundation/common/clock.js';
import { isId } from '../../foundation/common/ids.js';
import { EXAMPLES, APP_SCOPE } from '../../foundation/common/names.js';
import { Environment } from '../../foundation/config/environment.js';
import { Database } from '../../foundation/database/database.js';
import { NodesModule } from '../../domain/nodes/nodes.module.js';
import { NodesService } from '../../domain/nodes/nodes.service.js';
import { ProblemException, problems } from '../../foundation/problems/problems.js';
import { CHANGES_SINCE } from '../../domain/revocation/revocation-feed.js';
import {
  ChangeLog,
  MAX_CURSOR_LENGTH,
  parseSnapshot,
  toAnswer,
  type Answer,
  type FeedRow,
} from '../../../packages/lease/src/change-feed.js';
import { RevocationLease } from '../../../packages/lease/src/lease.js';
import { AuthorizeController } from './authorize.controller.js';
import { IntrospectController } from './introspect.controller.js';

/** Never zod's own words: they repeat the names of unknown fields. */
const notAnObject = {
  error: ({ code }: { readonly code?: string }) =>
    code === 'unrecognized_keys' ? 'has a field that is not part of this request' : 'must be an object',
};
const MAX_USES = 500;
const MAX_AGE_MS = 3_600_000;

/** A key that a verifier accepted from its memory. */
const use = z
  .strictObject(
    {
      kind: z.enum(['node', 'app'], { error: 'must be node or app' }),
      id: z.string({ error: 'must be a valid UUID' }).refine(isId, 'must be a valid UUID'),
      ago_ms: z
        .number({ error: 'must be a number of milliseconds' })
        .transform((ago) => Math.min(MAX_AGE_MS, Math.max(0, Math.round(ago)))),
      scope: z.string({ error: APP_SCOPE.detail }).refine(APP_SCOPE.isName, APP_SCOPE.detail).optional(),
    },
    notAnObject,
  )
  .refine(({ kind, scope }) => kind === 'app' || scope === undefined, {
    path: ['scope'],
    error: 'must be absent: nodes have no scopes',
  });

const body = z.strictObject(
  {
    // What is not a cursor of this service is answered with a reset.
    cursor: z.string().optional().catch(undefined),
    used: z.array(use, { error: 'must be a list' }).max(MAX_USES, `must have at most ${MAX_USES} entries`).default([]),
  },
  notAnObject,
);

type ChangesRequest = z.output<typeof body>;
type ReportedUse = z.output<typeof use>;

/** To be called after authentication: validation of a large body costs milliseconds. */
function parseChangesRequest(bytes: Buffer | undefined): ChangesRequest {
  const parsed = body.safeParse(parseJson(bytes));
  if (parsed.success) return parsed.data;
  const errors = parsed.error.issues.map(({ path, message }) => ({
    pointer: path.map((part) => `/${String(part)}`).join(''),
    detail: message,
  }));
  throw new ProblemException(problems.validationFailed, { errors });
}

function parseJson(bytes: Buffer | undefined): unknown {
  if (!bytes || bytes.length === 0) return {};
  try {
    if (isUtf8(bytes)) return JSON.parse(bytes.toString());
  } catch {
    // Answered below.
  }
  throw new ProblemException(problems.malformedRequest);
}

interface LeasedAnswer extends Answer {
  readonly leaseMs: number;
  readonly freshForMs: number;
}

/** Hands the lease of this replica on to verifiers, with what changed since their last poll. */
@Injectable()
export class ChangesService {
  /** Calls in one round of the event loop share the statement of a cursor: verifiers of a new replica ask with the same few. */
  private readonly reads: DataLoader<string, Answer> = new DataLoader(
    (cursors) => {
      this.reads.clearAll();
      return Promise.all(cursors.map((cursor) => this.readChanges(cursor)));
    },
    { batchScheduleFn: setImmediate },
  );

  constructor(
    private readonly log: ChangeLog,
    private readonly lease: RevocationLease,
    private readonly database: Database,
    private readonly nodes: NodesService,
    private readonly appCredentials: AppCredentialsService,
    private readonly environment: Environment,
    private readonly clock: Clock,
  ) {}

  /** @throws {ProblemException} unavailable: this replica has no lease to hand on */
  async getChangesSince(cursor: string | undefined): Promise<LeasedAnswer> {
    const leaseMs = this.environment.revocationLeaseMs;
    if (leaseMs === 0) return { cursor: '', reset: true, changes: [], leaseMs, freshForMs: 0 };
    // Judged before anything is read too: a lease that begins meanwhile may be one that no revoking call waited for.
    this.readRemainingLeaseMs();
    const answer = this.log.answer(cursor) ?? (await this.reads.load(cursor ?? ''));
    // Read after the answer, without a pause between them: the lease is never longer than the answer is true.
    const freshForMs = this.readRemainingLeaseMs();
    return { ...answer, leaseMs, freshForMs };
  }

  /** @param service that says it accepted the keys. It may send any id: only the statement that writes knows the key. */
  recordUses(used: readonly ReportedUse[], service: string): void {
    const now = this.clock.now().getTime();
    for (const { kind, id, ago_ms, scope } of used) {
      const { keys } = kind === 'node' ? this.nodes : this.appCredentials;
      keys.verifier.lastUses.addReported(id.toLowerCase(), service, new Date(now - ago_ms), scope);
    }
  }

  private readRemainingLeaseMs(): number {
    const { remainingMs } = this.lease;
    if (remainingMs === 0) throw new ProblemException(problems.unavailable);
    return remainingMs;
  }

  private async readChanges(cursor: string): Promise<Answer> {
    const row = await this.database.row<FeedRow>(CHANGES_SINCE, [parseSnapshot(cursor)]);
    if (!row) throw new ProblemException(problems.unavailable);
    return toAnswer(cursor, row);
  }
}

const CURSOR = `${'0123456789abcdef'.repeat(4)}/4711:4713:4711`;

/** Tells a verifier whose SERVICE_NAME is another one, which would refuse every key. A header, so that older ones ignore it. */
const CALLER_HEADER = 'X-Platform-Caller';

class UseBody {
  @ApiProperty({ enum: ['node', 'app'] }) kind!: 'node' | 'app';
  @ApiProperty(ID) id!: string;
  @ApiProperty({ type: 'integer', description: 'clamped to 0 to 3,600,000', example: 1_200 }) ago_ms!: number;

  @ApiPropertyOptional({
    ...APP_SCOPE.schema,
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
class ChangesController {
  constructor(private readonly changes: ChangesService) {}

  @Post('changes')
  @RequireApp()
  // Each verifier polls several times a second.
  @Declares({ body: 'bytes', logged: 'none' })
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
  controllers: [ChangesController, AuthorizeController, IntrospectController],
  providers: [ChangesService],
})
export class InternalModule {}
