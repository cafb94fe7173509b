/**
 * Second factors of users: authenticator apps (TOTP), recovery codes and passkeys. A passkey is also enough alone.
 * A code works once: one conditional statement accepts it. A change of factors needs the password, and commits together
 * with its audit event. Challenges (challenges.ts) live 5 minutes by PostgreSQL's clock, and are used once.
 */
import { Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import type { Actor } from '../access/actor.js';
import { AuditLog } from '../audit/audit-log.js';
import { Clock } from '../common/clock.js';
import { isId } from '../common/ids.js';
import type { SecondFactorMethod } from '../common/second-factor-methods.js';
import { Environment } from '../config/environment.js';
import { Database } from '../database/database.js';
import { ProblemException } from '../problems/problem.exception.js';
import { problems } from '../problems/problems.js';
import { LOCK_USER, READ_FACTORS, REMOVE_ALL } from './factor-statements.js';

interface KnownPasskey {
  /** base64url */
  readonly id: string;
  readonly transports: string[];
}

/** A user, and what the user can answer a challenge with. */
export interface Factors {
  readonly id: string;
  readonly email: string;
  readonly passwordChangedAt: Date | null;
  readonly emailVerifiedAt: Date | null;
  /** Identifies the set of factors. */
  readonly factorsChangedAt: Date | null;
  readonly isActive: boolean;
  readonly encryptedSecret: Buffer | null;
  /** Null: enrolled and not confirmed, or not enrolled. */
  readonly confirmedAt: Date | null;
  /** Unused ones. */
  readonly recoveryCodes: number;
  readonly passkeys: readonly KnownPasskey[];
}

@Injectable()
export class SecondFactors {
  constructor(
    private readonly dataSource: DataSource,
    private readonly database: Database,
    private readonly audit: AuditLog,
    private readonly environment: Environment,
    private readonly clock: Clock,
  ) {}

  /** @returns undefined when the user does not exist */
  async read(userId: string): Promise<Factors | undefined> {
    const row = await this.database.row<Factors>(READ_FACTORS, [userId]);
    const toUrlSafe = (id: string): string => Buffer.from(id, 'base64').toString('base64url');
    return row && { ...row, passkeys: row.passkeys.map((passkey) => ({ ...passkey, id: toUrlSafe(passkey.id) })) };
  }

  /** Without WEBAUTHN_RP_ID a user whose only factors are passkeys has no method: fails closed. */
  listMethods({ confirmedAt, recoveryCodes, passkeys }: Factors): SecondFactorMethod[] {
    const hasPasskey = passkeys.length > 0 && this.environment.webauthnRpId !== undefined;
    return [
      ...(confirmedAt ? (['totp'] as const) : []),
      ...(confirmedAt && recoveryCodes > 0 ? (['recovery_code'] as const) : []),
      ...(hasPasskey ? (['passkey'] as const) : []),
    ];
  }

  /**
   * An operator removes all factors of a user who has lost them, and ends the user's sessions. Idempotent.
   * @param endSessions ends the sessions of the user, and returns their number
   * @throws {ProblemException} not_found
   */
  async removeAll(
    userId: string,
    actor: Actor,
    endSessions: (transaction: EntityManager, userId: string) => Promise<number>,
  ): Promise<void> {
    if (!isId(userId)) throw new ProblemException(problems.notFound);
    await this.dataSource.transaction(async (transaction) => {
      const [users] = await transaction.query<[{ id: string }[], number]>(LOCK_USER, [userId, this.clock.now()]);
      const [user] = users;
      if (!user) throw new ProblemException(problems.notFound);
      const removed = await this.deleteAll(transaction, user.id);
      const count = await endSessions(transaction, user.id);
      const event = 'admin.user.factors_removed';
      const logFields = { user_id: user.id, count };
      if (removed.totp + removed.passkeys + count === 0) {
        this.audit.logOnly(event, actor, logFields);
        return;
      }
      await this.audit.record(transaction, {
        event,
        actor,
        time: this.clock.now(),
        subject: user.id,
        details: { before: { totp: removed.totp > 0, passkeys: removed.passkeys }, ended_sessions: count },
        logFields,
      });
    });
  }

  /**
   * @param transaction holds the lock of the user's row
   * @returns how many there were
   */
  async deleteAll(transaction: EntityManager, userId: string): Promise<{ totp: number; passkeys: number }> {
    const [removed] = await transaction.query<{ totp: number; passkeys: number }[]>(REMOVE_ALL, [userId]);
    return removed ?? { totp: 0, passkeys: 0 };
  }
}
