import { Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { toUserActor, type Actor } from '../../foundation/access/actor.js';
import { toUserEvent, withAuditEvent } from '../audit/audit-events.js';
import { AuditLog } from '../audit/audit-log.js';
import { addDays } from '../../foundation/common/clock.js';
import { createId } from '../../foundation/common/ids.js';
import { toNetwork } from '../../foundation/common/network.js';
import { Environment } from '../../foundation/config/environment.js';
import { ComparedClock } from '../../foundation/database/compared-clock.js';
import type { AccountState } from '../passwords/password-verifier.js';
import { AccessTokens, type Amr, type TokenPair } from './access-tokens.js';
import { SessionsService } from './sessions.service.js';
import { RefreshTokens } from './refresh-tokens.js';

/** FOR SHARE prevents a race with a transaction that disables the user or changes what the condition names. */
const START_SESSION = withAuditEvent({
  name: 'sessions_start',
  text: `INSERT INTO sessions (id, user_id, token_digest, generation, rotated_at, created_at, expires_at,
                               absolute_expires_at, created_from, user_agent, amr)
         SELECT $1, active.id, $3, 0, $4, $4, LEAST($5, $6::timestamptz), $6, $8, $9, $10
         FROM (SELECT id FROM users
               WHERE id = $2 AND is_active AND password_changed_at IS NOT DISTINCT FROM $7::timestamptz
                 AND factors_changed_at IS NOT DISTINCT FROM $11::timestamptz AND email = $12
               FOR SHARE) AS active
         RETURNING id`,
});

interface Login {
  readonly owner: AccountState;
  readonly actor: Actor;
  readonly amr: Amr;
  /** Consumes the challenge and the factor in the transaction that starts the session. An exception rolls both back. */
  readonly useProofs?: (transaction: EntityManager) => Promise<void>;
}

@Injectable()
export class NewSessions {
  constructor(
    private readonly dataSource: DataSource,
    private readonly tokens: RefreshTokens,
    private readonly accessTokens: AccessTokens,
    private readonly sessions: SessionsService,
    private readonly audit: AuditLog,
    private readonly environment: Environment,
    private readonly clock: ComparedClock,
  ) {}

  /** @returns undefined when the user was disabled, deleted, or changed password, address or factors */
  async startSession({ owner, actor: client, amr, useProofs }: Login): Promise<TokenPair | undefined> {
    const sign = await this.accessTokens.prepareSigning();
    const { id: userId, email } = owner;
    const actor = toUserActor(client, userId);
    const token = this.tokens.issueFirst(createId());
    const now = this.clock.trustedNow();
    const { refreshTokenExpireDays, sessionMaxAgeDays } = this.environment;
    const sessionEnd = addDays(now, sessionMaxAgeDays);
    const values = [
      token.sessionId,
      userId,
      token.digest,
      now,
      addDays(now, refreshTokenExpireDays),
      sessionEnd,
      owner.passwordChangedAt,
      toNetwork(actor.address),
      actor.userAgent ?? null,
      amr,
      owner.factorsChangedAt,
      email,
    ];
    const event = toUserEvent('user.login.succeeded', actor, userId, {
      time: now,
      details: { session_id: token.sessionId, amr },
      logFields: { session_id: token.sessionId },
    });
    const started = useProofs
      ? await this.dataSource.transaction(async (transaction) => {
          // The session comes first, because it locks the row of the user, and a change of factors locks in that order
          // too.
          const rows = await this.audit.execute(START_SESSION, values, event, transaction);
          if (rows.length > 0) await useProofs(transaction);
          return rows;
        })
      : await this.audit.execute(START_SESSION, values, event);
    if (started.length === 0) return undefined;
    await this.sessions.endSurplusSessions(userId, token.sessionId, actor);
    return sign({ sessionId: token.sessionId, userId, email, amr, refreshToken: token.text, sessionEnd });
  }
}
