/**
 * Hands the lease of this replica on to verifiers, with what changed since their last poll (docs/decisions/0044). Terms:
 * poll, cursor, lease, use (a key that a verifier accepted from its memory).
 */
import { isUtf8 } from 'node:buffer';
import { Injectable } from '@nestjs/common';
import DataLoader from 'dataloader';
import * as z from 'zod';
import { AppCredentialsService } from '../app-credentials/app-credentials.service.js';
import { Clock } from '../common/clock.js';
import { isId } from '../common/ids.js';
import { APP_SCOPE } from '../common/names.js';
import { Environment } from '../config/environment.js';
import { Database } from '../database/database.js';
import { NodesService } from '../nodes/nodes.service.js';
import { ProblemException, problems } from '../problems/problems.js';
import { ChangeLog, parseSnapshot, toAnswer, type Answer, type FeedRow } from '../../packages/lease/src/change-feed.js';
import { CHANGES_SINCE } from '../revocation/revocation-feed.js';
import { RevocationLease } from '../../packages/lease/src/lease.js';

/** Never zod's own words: they repeat the names of unknown fields. */
const notAnObject = {
  error: ({ code }: { readonly code?: string }) =>
    code === 'unrecognized_keys' ? 'has a field that is not part of this request' : 'must be an object',
};
export const MAX_USES = 500;
const MAX_AGE_MS = 3_600_000;

/** A key that a verifier accepted from its memory. */
const use = z.strictObject(
  {
    kind: z.enum(['node', 'app'], { error: 'must be node or app' }),
    id: z.string({ error: 'must be a valid UUID' }).refine(isId, 'must be a valid UUID'),
    ago_ms: z
      .number({ error: 'must be a number of milliseconds' })
      .transform((ago) => Math.min(MAX_AGE_MS, Math.max(0, Math.round(ago)))),
    scope: z.string({ error: APP_SCOPE.detail }).refine(APP_SCOPE.isName, APP_SCOPE.detail).optional(),
  },
  notAnObject,
);

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
export function parseChangesRequest(bytes: Buffer | undefined): ChangesRequest {
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

export interface LeasedAnswer extends Answer {
  readonly leaseMs: number;
  readonly freshForMs: number;
}

@Injectable()
export class ChangesService {
  /** Calls in one round of the event loop share the statement of their cursor: all verifiers of a new replica ask with the same few. */
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
