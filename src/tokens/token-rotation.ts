import { Injectable } from '@nestjs/common';
import { ExponentialBackoff, handleWhen, retry } from 'cockatiel';
import type { Actor } from '../access/actor.js';
import { AuditLog } from '../audit/audit-log.js';
import { addDays, addSeconds, Clock } from '../common/clock.js';
import { Environment } from '../config/environment.js';
import type { SecretDigest } from '../crypto/secret.js';
import { isDatabaseFailure } from '../database/database-failure.js';
import { Database } from '../database/database.js';
import { UnansweredStatementError } from '../database/fail-fast-client.js';
import { toErrorFields } from '../logging/log-line.js';
import { Log } from '../logging/log.js';
import { toNetwork } from '../common/network.js';
import type { Amr, Grant } from './grant.js';
import { RefreshTokens, type RefreshToken } from './refresh-token.js';
import * as sql from './session-statements.js';
import { SessionsService } from './sessions.service.js';

/** A slower rotation restarts its grace when it is visible: the client may have timed out by then. */
const SLOW_COMMIT_MS = 1_000;
const RESTART_GRACE_POLICY = retry(handleWhen(isDatabaseFailure), {
  maxAttempts: 5,
  backoff: new ExponentialBackoff(),
});

export type RefreshOutcome =
  | { readonly outcome: 'rotated' | 'repeated' | 'repeated_elsewhere'; readonly grant: Grant }
  | { readonly outcome: 'refused'; readonly reason: 'malformed' | 'unknown' | 'forged' }
  | { readonly outcome: 'reused'; readonly sessionId: string; readonly userId: string };

/**
 * Rotates refresh tokens and detects their reuse (RFC 9700 §4.14.2; docs/decisions/0007 has the argument).
 * Of all presentations of a token one rotates it. Within the grace the immediate parent yields the same successor again.
 * An older token, or a later presentation, is a replay and ends the session.
 */
@Injectable()
export class TokenRotation {
  constructor(
    private readonly database: Database,
    private readonly tokens: RefreshTokens,
    private readonly sessions: SessionsService,
    private readonly audit: AuditLog,
    private readonly environment: Environment,
    private readonly clock: Clock,
    private readonly log: Log,
  ) {}

  /** Exchanges a refresh token for its successor: one statement in the common case. */
  async refresh(presented: string, actor: Actor): Promise<RefreshOutcome> {
    const token = this.tokens.parse(presented);
    if (!token) return { outcome: 'refused', reason: 'malformed' };
    const successor = this.tokens.deriveGeneration(token.generation + 1, token);
    const { user_id, email, amr, was_current } = await this.rotate(token, successor, actor);
    if (user_id !== null && email !== null && amr !== null) {
      return { outcome: 'rotated', grant: toGrant(successor, { user_id, email, amr }) };
    }
    return this.resolveSupersededToken(token, successor, was_current, actor);
  }

  private async rotate(token: RefreshToken, successor: RefreshToken, { address }: Actor): Promise<RotateRow> {
    const now = this.clock.now();
    const expiresAt = addDays(now, this.environment.refreshTokenExpireDays);
    const network = toNetwork(address);
    const values = [token.sessionId, token.digest, successor.digest, now, expiresAt, network];
    const sentAt = performance.now();
    try {
      const row = await this.database.row<RotateRow>(sql.ROTATE, values);
      if (!row) throw new Error('ROTATE returned no row');
      if (performance.now() - sentAt > SLOW_COMMIT_MS) void this.restartGrace(row, successor);
      return row;
    } catch (error) {
      // 503 for this client. If PostgreSQL commits later, the retry must not count as reuse.
      if (error instanceof UnansweredStatementError) {
        void error.lateResult.then((result) => this.restartGrace(result?.rows[0] as RotateRow | undefined, successor));
      }
      throw error;
    }
  }

  /** Extends the grace of a rotation by the duration of its commit, unless the successor was used meanwhile. */
  private async restartGrace(row: RotateRow | undefined, { sessionId, digest }: RefreshToken): Promise<void> {
    if (!row?.user_id) return;
    const visibleAt = this.clock.now();
    try {
      await RESTART_GRACE_POLICY.execute(() => this.database.rows(sql.RESTART_GRACE, [sessionId, digest, visibleAt]));
    } catch (error) {
      this.log.warn('refresh_grace_not_extended', { session_id: sessionId, error: toErrorFields(error) });
    }
  }

  /**
   * Tells the retry of a client whose response was lost from a replay. The immediate parent of the current token, within
   * the grace, is a retry: the response is the same successor. Any other superseded token is reuse and ends the session.
   * The end is committed here, before the caller throws, so that the exception cannot roll it back.
   * @param wasCurrent the rotation became visible while this request waited for it, so the request is within the grace
   * however long the commit took
   */
  private async resolveSupersededToken(
    token: RefreshToken,
    successor: RefreshToken,
    wasCurrent: boolean,
    actor: Actor,
  ): Promise<RefreshOutcome> {
    const now = this.clock.now();
    const row = await this.database.row<SupersededRow>(sql.READ_SUPERSEDED, [token.sessionId, now]);
    if (!row) return { outcome: 'refused', reason: 'unknown' };
    if (token.generation >= row.generation || !this.tokens.isOfSession(token, row.generation, row.token_digest)) {
      return { outcome: 'refused', reason: 'forged' };
    }
    const isParent = token.generation + 1 === row.generation;
    if (isParent && (wasCurrent || now <= addSeconds(row.rotated_at, this.environment.refreshGraceSeconds))) {
      const isElsewhere = await this.recordRepeatElsewhere(token.sessionId, row, actor);
      return { outcome: isElsewhere ? 'repeated_elsewhere' : 'repeated', grant: toGrant(successor, row) };
    }
    const reused = { sessionId: token.sessionId, userId: row.user_id };
    await this.sessions.endReused(reused.sessionId, reused.userId, actor);
    return { outcome: 'reused', ...reused };
  }

  /** @returns whether the request comes from another network than the rotation. Each such request has a log
   * line, the first of a rotation an audit event too, before the successor is sent. */
  private async recordRepeatElsewhere(sessionId: string, row: SupersededRow, actor: Actor): Promise<boolean> {
    const { rotated_from, generation, user_id } = row;
    if (rotated_from === null || rotated_from === toNetwork(actor.address)) return false;
    const event = 'session.refresh.repeated_elsewhere';
    const audited = { event, actor, time: this.clock.now(), subject: user_id } as const;
    const details = { session_id: sessionId, rotated_from };
    await this.audit.execute(sql.RECORD_REPEAT_ELSEWHERE, [sessionId, generation], { ...audited, details });
    this.audit.logOnly(event, actor, { user_id, session_id: sessionId });
    return true;
  }
}

interface RotateRow {
  /** Null when the presented token did not rotate. */
  readonly user_id: string | null;
  readonly email: string | null;
  readonly amr: Amr | null;
  readonly was_current: boolean;
}

interface SupersededRow {
  readonly user_id: string;
  readonly email: string;
  readonly amr: Amr;
  readonly token_digest: SecretDigest;
  readonly generation: number;
  readonly rotated_at: Date;
  readonly rotated_from: string | null;
}

function toGrant(token: RefreshToken, session: Pick<SupersededRow, 'user_id' | 'email' | 'amr'>): Grant {
  const { user_id: userId, email, amr } = session;
  return { sessionId: token.sessionId, userId, email, amr, refreshToken: token.text };
}
