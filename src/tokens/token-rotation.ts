import { Injectable } from '@nestjs/common';
import { ExponentialBackoff, handleWhen, retry } from 'cockatiel';
import type { Actor } from '../audit/actor.js';
import { entryValues } from '../audit/audit-entry.js';
import { addDays, addSeconds, Clock } from '../common/clock.js';
import { Environment } from '../config/environment.js';
import type { SecretDigest } from '../crypto/secret.js';
import { isDatabaseFailure } from '../database/database-failure.js';
import { Database } from '../database/database.js';
import { UnansweredStatementError } from '../database/fail-fast-client.js';
import { toErrorFields } from '../logging/log-line.js';
import { Log } from '../logging/log.js';
import { toNetwork } from '../common/network.js';
import { RefreshTokens, type RefreshToken } from './refresh-token.js';
import * as sql from './session-statements.js';
import { SessionsService, type Grant } from './sessions.service.js';

/** A rotation that took longer starts its grace when it is visible: the caller may have given up by then. */
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
 * Of all presentations of a token one rotates it. Within the grace the immediate parent gets the same successor again;
 * anything older or later ends the session.
 */
@Injectable()
export class TokenRotation {
  constructor(
    private readonly database: Database,
    private readonly tokens: RefreshTokens,
    private readonly sessions: SessionsService,
    private readonly environment: Environment,
    private readonly clock: Clock,
    private readonly log: Log,
  ) {}

  /** Exchanges a refresh token for its successor. One statement when all is well. */
  async refresh(presented: string, actor: Actor): Promise<RefreshOutcome> {
    const token = this.tokens.parse(presented);
    if (!token) return { outcome: 'refused', reason: 'malformed' };
    const successor = this.tokens.ofGeneration(token.generation + 1, token);
    const { user_id, email, was_current } = await this.rotate(token, successor, actor);
    if (user_id !== null && email !== null) {
      return { outcome: 'rotated', grant: grantOf(successor, { user_id, email }) };
    }
    return this.resolveSupersededToken(token, successor, was_current, actor);
  }

  private async rotate(token: RefreshToken, successor: RefreshToken, { address }: Actor): Promise<RotateRow> {
    const now = this.clock.now();
    const expiresAt = addDays(now, this.environment.refreshTokenTtlDays);
    const network = toNetwork(address ?? undefined);
    const values = [token.sessionId, token.digest, successor.digest, now, expiresAt, network];
    const sentAt = performance.now();
    try {
      const row = await this.database.row<RotateRow>(sql.ROTATE, values);
      if (!row) throw new Error('ROTATE returned no row');
      if (performance.now() - sentAt > SLOW_COMMIT_MS) void this.restartGrace(row, successor);
      return row;
    } catch (error) {
      // 503 for this caller. If PostgreSQL commits after all, the next try must not count as reuse.
      if (error instanceof UnansweredStatementError) {
        void error.lateResult.then((result) => this.restartGrace(result?.rows[0] as RotateRow | undefined, successor));
      }
      throw error;
    }
  }

  /** Extends the grace of a rotation by the time that its commit took, unless the successor is used already. */
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
   * A token that did not rotate. Its immediate parent, while the successor is unused and young, means that a response
   * was lost: the caller gets that same successor. Anything older or later is reuse, and ends the session. The end is
   * committed here; the caller refuses afterwards, so that no error can roll it back.
   * @param wasCurrent the rotation became visible while this request waited for it: within the grace, however long the
   * commit took
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
    if (token.generation >= row.generation || !this.tokens.belongsTo(token, row.generation, row.token_digest)) {
      return { outcome: 'refused', reason: 'forged' };
    }
    const isParent = token.generation + 1 === row.generation;
    if (isParent && (wasCurrent || now <= addSeconds(row.rotated_at, this.environment.refreshGraceSeconds))) {
      const isElsewhere = await this.recordRepeatElsewhere(token.sessionId, row, actor);
      return { outcome: isElsewhere ? 'repeated_elsewhere' : 'repeated', grant: grantOf(successor, row) };
    }
    const reused = { sessionId: token.sessionId, userId: row.user_id };
    await this.sessions.end(reused, 'reuse', actor);
    return { outcome: 'reused', ...reused };
  }

  /** @returns whether another network asked than the one that rotated; recorded before the successor is shown */
  private async recordRepeatElsewhere(sessionId: string, row: SupersededRow, actor: Actor): Promise<boolean> {
    const { rotated_from, generation, user_id } = row;
    if (rotated_from === null || rotated_from === toNetwork(actor.address ?? undefined)) return false;
    const record = entryValues({
      event: 'session.refresh.repeated_elsewhere',
      actor,
      time: this.clock.now(),
      subject: user_id,
      details: { session_id: sessionId, rotated_from },
    });
    await this.database.rows(sql.RECORD_REPEAT_ELSEWHERE, [sessionId, generation, ...record]);
    return true;
  }
}

interface RotateRow {
  /** Null when the presented token did not rotate. */
  readonly user_id: string | null;
  readonly email: string | null;
  readonly was_current: boolean;
}

interface SupersededRow {
  readonly user_id: string;
  readonly email: string;
  readonly token_digest: SecretDigest;
  readonly generation: number;
  readonly rotated_at: Date;
  readonly rotated_from: string | null;
}

function grantOf(token: RefreshToken, user: { user_id: string; email: string }): Grant {
  return { sessionId: token.sessionId, userId: user.user_id, email: user.email, refreshToken: token.text };
}
