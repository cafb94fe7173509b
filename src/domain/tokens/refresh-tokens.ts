/**
 * Refresh tokens: their format, rotation, logout, and the detection of reuse (RFC 9700 §4.14.2; docs/decisions/0007).
 * One presentation of a token rotates it. Within the grace, while its successor is unused, its repetition returns the
 * same successor, because a client whose response was lost repeats the call. The presentation of any other superseded
 * token is a replay and ends the session.
 */
import { Injectable } from '@nestjs/common';
import { ExponentialBackoff, handleWhen, retry } from 'cockatiel';
import { parse } from 'uuid';
import type { Actor } from '../../foundation/access/actor.js';
import { withAuditEvent } from '../audit/audit-events.js';
import { AuditLog } from '../audit/audit-log.js';
import { addDays, addSeconds } from '../../foundation/common/clock.js';
import { toUuid } from '../../foundation/common/ids.js';
import { toNetwork } from '../../foundation/common/network.js';
import type { RefusalReason } from '../../foundation/common/security-events.js';
import { Environment, isSecondFactorRequired } from '../../foundation/config/environment.js';
import {
  computeDigest,
  computeMac,
  deriveKey,
  generateSecretBytes,
  isSameDigest,
  type SecretDigest,
  appendChecksum,
  CHECKSUM_LENGTH,
} from '../../foundation/crypto/secret.js';
import { ComparedClock } from '../../foundation/database/compared-clock.js';
import { isDatabaseFailure } from '../../foundation/database/database-failure.js';
import { Database } from '../../foundation/database/database.js';
import { UnansweredStatementError } from '../../foundation/database/request-pool.js';
import { toErrorFields, Log } from '../../foundation/logging/log.js';
import { ProblemException, problems } from '../../foundation/problems/problems.js';
import type { Amr, Grant } from './access-tokens.js';
import { buildIsLive, SessionsService } from './sessions.service.js';

const PREFIX = 'pa_rt_';
const ID_BYTES = 16;
const GENERATION_BYTES = 4;
const SEED_BYTES = 32;
const BODY_BYTES = ID_BYTES + GENERATION_BYTES + SEED_BYTES;
const MAC_BYTES = 32;
const FORMAT = new RegExp(`^${PREFIX}[A-Za-z0-9_-]{${Math.ceil(((BODY_BYTES + MAC_BYTES) * 4) / 3)}}$`);
const MAX_GENERATION = 2 ** 31 - 1;

interface RefreshToken {
  readonly text: string;
  readonly digest: SecretDigest;
  readonly sessionId: string;
  readonly generation: number;
  /** 256 random bits that all tokens of a session share. They are never stored. */
  readonly seed: Buffer;
}

/**
 * A refresh token is session id, generation and seed, with an HMAC under a key derived from MASTER_KEY, so that any
 * generation yields every other one. A forgery needs both the key and the seed, of which the database has only a
 * digest.
 * A checksum (crypto/secret.ts) replaces the end of the HMAC, which leaves 220 of its bits.
 */
@Injectable()
export class RefreshTokens {
  private readonly key;
  private readonly keys;

  constructor({ masterKey, masterKeyPrevious }: Environment) {
    const derive = (secret: string) => deriveKey(secret, 'platform-auth refresh token v1');
    this.key = derive(masterKey);
    this.keys = masterKeyPrevious === undefined ? [this.key] : [this.key, derive(masterKeyPrevious)];
  }

  issueFirst(sessionId: string): RefreshToken {
    return this.encode(sessionId, 0, generateSecretBytes());
  }

  deriveGeneration(generation: number, { sessionId, seed }: RefreshToken): RefreshToken {
    return this.encode(sessionId, generation, seed);
  }

  /** Parses the format, and verifies nothing. @returns undefined for text in another format */
  parseToken(text: string): RefreshToken | undefined {
    if (!FORMAT.test(text)) return undefined;
    const bytes = Buffer.from(text.slice(PREFIX.length), 'base64url');
    const sessionId = toUuid(bytes.subarray(0, ID_BYTES));
    const generation = bytes.readUInt32BE(ID_BYTES);
    if (!sessionId || generation >= MAX_GENERATION) return undefined;
    return {
      text,
      digest: computeDigest(text),
      sessionId,
      generation,
      seed: bytes.subarray(ID_BYTES + GENERATION_BYTES, BODY_BYTES),
    };
  }

  /**
   * @returns the current token of the session; undefined when this service did not issue the presented one for that
   * session, for example because an attacker who knows only the session id forged it
   */
  deriveCurrent(token: RefreshToken, currentGeneration: number, currentDigest: SecretDigest): RefreshToken | undefined {
    const isOurs = this.deriveIssued(token.generation, token, token.digest) !== undefined;
    return isOurs ? this.deriveIssued(currentGeneration, token, currentDigest) : undefined;
  }

  /**
   * During a rotation of MASTER_KEY another replica may have made the token, with either key.
   * @returns the token of this generation, if it has this digest
   */
  private deriveIssued(
    generation: number,
    { sessionId, seed }: RefreshToken,
    digest: SecretDigest,
  ): RefreshToken | undefined {
    const candidates = this.keys.map((key) => this.encode(sessionId, generation, seed, key));
    return candidates.find((issued) => isSameDigest(issued.digest, digest));
  }

  private encode(sessionId: string, generation: number, seed: Buffer, key = this.key): RefreshToken {
    const body = Buffer.alloc(BODY_BYTES);
    body.set(parse(sessionId), 0);
    body.writeUInt32BE(generation, ID_BYTES);
    body.set(seed, ID_BYTES + GENERATION_BYTES);
    const complete = PREFIX + Buffer.concat([body, computeMac(key, body)]).toString('base64url');
    const text = appendChecksum(complete.slice(0, -CHECKSUM_LENGTH));
    return { text, digest: computeDigest(text), sessionId, generation, seed };
  }
}

/** If the commit takes longer, the grace starts again, because the client may have timed out meanwhile. */
const SLOW_COMMIT_MS = 1_000;
/** How far two replicas' measures of PostgreSQL's time may differ: half a round trip each (ComparedClock). */
const MAX_CLOCK_ERROR_SECONDS = 5;
const RESTART_GRACE_POLICY = retry(handleWhen(isDatabaseFailure), {
  maxAttempts: 5,
  backoff: new ExponentialBackoff(),
});

/**
 * One of several concurrent presentations rotates the token. The others wait for the row lock and see `was_current`,
 * because their snapshot precedes the rotation. `$7`: whether a second factor is required; a session that began without
 * one does not rotate then, nor end, so that it goes on when the operator takes the requirement back.
 */
export const ROTATE = {
  name: 'sessions_rotate',
  text: `WITH rotated AS (
           UPDATE sessions
           SET token_digest = $3, generation = generation + 1, rotated_at = $4, rotated_from = $6,
               expires_at = LEAST($5, absolute_expires_at)
           FROM users
           WHERE sessions.id = $1 AND token_digest = $2 AND users.id = user_id AND ${buildIsLive('expires_at', '$4')}
             AND (NOT $7::boolean OR 'mfa' = ANY (amr))
           RETURNING user_id, users.email, amr, absolute_expires_at)
         SELECT user_id, email, amr, absolute_expires_at,
           user_id IS NULL AND EXISTS (SELECT FROM sessions WHERE id = $1 AND token_digest = $2) AS was_current
         FROM (VALUES (true)) AS always LEFT JOIN rotated ON true`,
};

const RESTART_GRACE = {
  name: 'sessions_restart_grace',
  text: `UPDATE sessions SET rotated_at = $3
         WHERE id = $1 AND token_digest = $2 AND ended_at IS NULL AND rotated_at < $3`,
};

/** Limits audit events to one per rotation, because the holder of a token could cause thousands within the grace. */
const RECORD_REPEAT_ELSEWHERE = withAuditEvent({
  name: 'sessions_record_repeat_elsewhere',
  text: `UPDATE sessions SET elsewhere_generation = generation
         WHERE id = $1 AND generation = $2 AND elsewhere_generation IS DISTINCT FROM generation RETURNING id`,
});

const READ_SUPERSEDED = {
  name: 'sessions_read_superseded',
  text: `SELECT user_id, email, amr, absolute_expires_at, token_digest, generation, rotated_at, rotated_from
         FROM sessions JOIN users ON users.id = user_id
         WHERE sessions.id = $1 AND ${buildIsLive('expires_at', '$2')}`,
};

const READ_FOR_LOGOUT = {
  name: 'sessions_read_for_logout',
  text: 'SELECT user_id, token_digest, generation FROM sessions WHERE id = $1 AND ended_at IS NULL',
};

@Injectable()
export class TokenRotation {
  constructor(
    private readonly database: Database,
    private readonly tokens: RefreshTokens,
    private readonly sessions: SessionsService,
    private readonly audit: AuditLog,
    private readonly environment: Environment,
    private readonly clock: ComparedClock,
    private readonly log: Log,
  ) {}

  /** @throws {ProblemException} invalid_refresh_token, after the end of a reused session is committed */
  async rotateRefreshToken(presented: string, actor: Actor): Promise<Grant> {
    const token = this.tokens.parseToken(presented);
    if (!token) throw createRefusedRefresh('malformed');
    const successor = this.tokens.deriveGeneration(token.generation + 1, token);
    const row = await this.rotateIfCurrent(token, successor, actor);
    if (row.user_id === null) return this.resolveSupersededToken(token, row.was_current, actor);
    return this.issueGrant(successor, row, 'rotated', actor);
  }

  /**
   * Ends the session of a refresh token of any generation, so that a concurrent refresh cannot leave it alive.
   * Idempotent.
   * @returns false for text that is not a refresh token, which no earlier call can have used either
   */
  async endSessionByRefreshToken(presented: string, actor: Actor): Promise<boolean> {
    const token = this.tokens.parseToken(presented);
    if (!token) return false;
    const { sessionId } = token;
    const row = await this.database.row<LogoutRow>(READ_FOR_LOGOUT, [sessionId]);
    // The digest identifies the current token even when MASTER_KEY has changed since it was issued.
    const isOfSession =
      row &&
      (row.token_digest.equals(token.digest) || this.tokens.deriveCurrent(token, row.generation, row.token_digest));
    if (isOfSession) await this.sessions.endSessionByLogout(sessionId, row.user_id, actor);
    return true;
  }

  private async rotateIfCurrent(token: RefreshToken, successor: RefreshToken, { address }: Actor): Promise<RotateRow> {
    const now = this.clock.trustedNow();
    const expiresAt = addDays(now, this.environment.refreshTokenExpireDays);
    const network = toNetwork(address);
    const needsFactor = isSecondFactorRequired(this.environment, now);
    const values = [token.sessionId, token.digest, successor.digest, now, expiresAt, network, needsFactor];
    const sentAt = performance.now();
    try {
      const row = await this.database.row<RotateRow>(ROTATE, values);
      if (!row) throw new Error('ROTATE returned no row');
      if (performance.now() - sentAt > SLOW_COMMIT_MS) void this.restartGrace(row, successor);
      return row;
    } catch (error) {
      // The client gets a 503 and retries. If PostgreSQL commits after all, the retry must not count as reuse.
      if (error instanceof UnansweredStatementError) {
        void error.lateResult.then((result) => this.restartGrace(result?.rows[0] as RotateRow | undefined, successor));
      }
      throw error;
    }
  }

  /** Extends the grace by the duration of the commit, unless the successor was used meanwhile. */
  private async restartGrace(row: RotateRow | undefined, { sessionId, digest }: RefreshToken): Promise<void> {
    if (!row?.user_id) return;
    const visibleAt = this.clock.now();
    try {
      await RESTART_GRACE_POLICY.execute(() => this.database.rows(RESTART_GRACE, [sessionId, digest, visibleAt]));
    } catch (error) {
      this.log.warn('refresh_grace_not_extended', { session_id: sessionId, error: toErrorFields(error) });
    }
  }

  /**
   * Distinguishes the retry of a client whose response was lost from a replay. Commits the end of a reused session
   * before it throws, because the exception would roll it back.
   * @param wasCurrent whether the rotation became visible while this request waited for it, which puts the request
   * within the grace however long the commit took
   */
  private async resolveSupersededToken(token: RefreshToken, wasCurrent: boolean, actor: Actor): Promise<Grant> {
    const now = this.clock.trustedNow();
    const { sessionId } = token;
    const row = await this.database.row<SupersededRow>(READ_SUPERSEDED, [sessionId, now]);
    if (!row) throw createRefusedRefresh('unknown');
    const current = this.tokens.deriveCurrent(token, row.generation, row.token_digest);
    if (current && token.generation === row.generation) this.requireFactor(row, now);
    if (token.generation >= row.generation || !current) throw createRefusedRefresh('forged');
    const isParent = token.generation + 1 === row.generation;
    if (isParent && (wasCurrent || this.isWithinGrace(row.rotated_at, now))) {
      this.requireFactor(row, now);
      const isElsewhere = await this.recordRepeatElsewhere(sessionId, row, actor);
      return this.issueGrant(current, row, isElsewhere ? 'repeated_elsewhere' : 'repeated', actor);
    }
    await this.sessions.endReusedSession(sessionId, row.user_id, actor);
    const fields = { session_id: sessionId, user_id: row.user_id };
    const refusal = { event: 'session.refresh.reused', reason: 'reused', fields } as const;
    throw new ProblemException(problems.invalidRefreshToken, { refusal });
  }

  /** Refuses a session that began without the second factor that is required now. It does not end. */
  private requireFactor({ amr }: GrantedRow, now: Date): void {
    if (isSecondFactorRequired(this.environment, now) && !amr.includes('mfa'))
      throw createRefusedRefresh('no_second_factor');
  }

  /** A rotation in the future happened before PostgreSQL's clock was set back, so its grace is over. */
  private isWithinGrace(rotatedAt: Date, now: Date): boolean {
    const latest = addSeconds(rotatedAt, this.environment.refreshGraceSeconds);
    return rotatedAt <= addSeconds(now, MAX_CLOCK_ERROR_SECONDS) && now <= latest;
  }

  private issueGrant(
    { sessionId, text: refreshToken }: RefreshToken,
    { user_id: userId, email, amr, absolute_expires_at: sessionEnd }: GrantedRow,
    reason: 'rotated' | 'repeated' | 'repeated_elsewhere',
    actor: Actor,
  ): Grant {
    this.audit.logOnly('session.refreshed', actor, { user_id: userId, session_id: sessionId, reason });
    return { sessionId, userId, email, amr, refreshToken, sessionEnd };
  }

  /**
   * Logs a repeat from another network than the rotation's. The first one of a rotation is also an audit event.
   * @returns whether it came from another network
   */
  private async recordRepeatElsewhere(sessionId: string, row: SupersededRow, actor: Actor): Promise<boolean> {
    const { rotated_from, generation, user_id } = row;
    if (rotated_from === null || rotated_from === toNetwork(actor.address)) return false;
    const event = 'session.refresh.repeated_elsewhere';
    const details = { session_id: sessionId, rotated_from };
    const audited = { event, actor, subject: user_id, details } as const;
    await this.audit.execute(RECORD_REPEAT_ELSEWHERE, [sessionId, generation], audited);
    this.audit.logOnly(event, actor, { user_id, session_id: sessionId });
    return true;
  }
}

interface GrantedRow {
  readonly user_id: string;
  readonly email: string;
  readonly amr: Amr;
  readonly absolute_expires_at: Date;
}

/** `user_id` is null when the presented token did not rotate. */
type RotateRow = { readonly was_current: boolean } & (GrantedRow | { readonly user_id: null });

interface LogoutRow {
  readonly user_id: string;
  readonly token_digest: SecretDigest;
  readonly generation: number;
}

interface SupersededRow extends GrantedRow, LogoutRow {
  readonly rotated_at: Date;
  readonly rotated_from: string | null;
}

function createRefusedRefresh(reason: RefusalReason<'session.refresh.refused'>): ProblemException {
  return new ProblemException(problems.invalidRefreshToken, { refusal: { event: 'session.refresh.refused', reason } });
}
