/**
 * Second factors of users: authenticator apps (TOTP), recovery codes and passkeys. A passkey is also enough alone.
 * A code works once: one conditional statement accepts it, in the transaction of what it is for (which locks the row of the
 * user first, then the challenge, then the factor). A change of the set of factors needs the password, and commits
 * together with its audit event. Challenges (challenges.ts) live 5 minutes by PostgreSQL's clock, and are used once.
 */
import { Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import type { Actor } from '../access/actor.js';
import { AuditLog } from '../audit/audit-log.js';
import { Clock } from '../common/clock.js';
import { isId } from '../common/ids.js';
import type { SecondFactorMethod } from '../common/names.js';
import { Environment } from '../config/environment.js';
import { Database } from '../database/database.js';
import { Propagation } from '../revocation/propagation.js';
import { ProblemException, problems } from '../problems/problems.js';
import { SessionsService } from '../tokens/sessions.service.js';
import {
  FIND_MOMENT_AFTER_ALL,
  FIND_MOMENT_BEFORE_ALL,
  READ_FACTORS,
  REMOVE_FACTORS,
  TOUCH_USER,
} from './factor-statements.js';

interface KnownPasskey {
  /** base64url */
  readonly id: string;
  readonly transports: string[];
}

/** A user, and what the user can answer a challenge with. */
export interface UserWithFactors {
  readonly id: string;
  readonly email: string;
  readonly passwordChangedAt: Date | null;
  readonly emailVerifiedAt: Date | null;
  /** Identifies the set of factors. */
  readonly factorsChangedAt: Date | null;
  readonly isActive: boolean;
  readonly encryptedSecret: Buffer | null;
  /** When the enrolment began. Null: not enrolled. */
  readonly enrolledAt: Date | null;
  /** Null: enrolled and not confirmed, or not enrolled. */
  readonly confirmedAt: Date | null;
  /** Unused ones. */
  readonly recoveryCodes: number;
  readonly passkeys: readonly KnownPasskey[];
}

/** The factors that the user has. {@link SecondFactorsService.listMethods} returns only factors that a login accepts. */
export function listFactors({ confirmedAt, recoveryCodes, passkeys }: UserWithFactors): SecondFactorMethod[] {
  return [
    ...(confirmedAt ? (['totp'] as const) : []),
    ...(confirmedAt && recoveryCodes > 0 ? (['recovery_code'] as const) : []),
    ...(passkeys.length > 0 ? (['passkey'] as const) : []),
  ];
}

@Injectable()
export class SecondFactorsService {
  constructor(
    private readonly dataSource: DataSource,
    private readonly database: Database,
    private readonly audit: AuditLog,
    private readonly sessions: SessionsService,
    private readonly propagation: Propagation,
    private readonly environment: Environment,
    private readonly clock: Clock,
  ) {}

  /** @returns undefined when the user does not exist */
  async read(userId: string): Promise<UserWithFactors | undefined> {
    const row = await this.database.row<UserWithFactors>(READ_FACTORS, [userId]);
    const toUrlSafe = (id: string): string => Buffer.from(id, 'base64').toString('base64url');
    return row && { ...row, passkeys: row.passkeys.map((passkey) => ({ ...passkey, id: toUrlSafe(passkey.id) })) };
  }

  /** Without WEBAUTHN_RP_ID a user whose only factors are passkeys has no method: fails closed. */
  listMethods(user: UserWithFactors): SecondFactorMethod[] {
    return listFactors(user).filter((method) => method !== 'passkey' || this.environment.webauthnRpId !== undefined);
  }

  /** @returns the given moment, or a later one after which the user made no factor by the clock of any replica */
  async findMomentAfterAll(transaction: EntityManager, userId: string, moment: Date): Promise<Date> {
    const [row] = await transaction.query<{ moment: Date }[]>(FIND_MOMENT_AFTER_ALL, [userId, moment]);
    return row?.moment ?? moment;
  }

  /** @returns the given moment, or an earlier one before which the user made no factor by the clock of any replica */
  async findMomentBeforeAll(transaction: EntityManager, userId: string, moment: Date): Promise<Date> {
    const [row] = await transaction.query<{ moment: Date }[]>(FIND_MOMENT_BEFORE_ALL, [userId, moment]);
    return row?.moment ?? moment;
  }

  /**
   * An operator removes all factors of a user who has lost them, and ends the user's sessions. Idempotent. When it has
   * returned, no verifier accepts their tokens.
   * @throws {ProblemException} not_found
   */
  async removeAll(userId: string, actor: Actor): Promise<void> {
    await this.propagation.propagateAfter(() => this.commitRemoval(userId, actor));
  }

  private async commitRemoval(userId: string, actor: Actor): Promise<void> {
    if (!isId(userId)) throw new ProblemException(problems.notFound);
    await this.dataSource.transaction(async (transaction) => {
      const [users] = await transaction.query<[{ id: string }[], number]>(TOUCH_USER, [userId, this.clock.now()]);
      const [user] = users;
      if (!user) throw new ProblemException(problems.notFound);
      const removed = await this.remove(transaction, user.id);
      const count = await this.sessions.endAllSessions(transaction, user.id, 'admin');
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
   * @param madeBefore undefined: all of them
   * @returns how many there were
   */
  async remove(
    transaction: EntityManager,
    userId: string,
    madeBefore?: Date,
  ): Promise<{ totp: number; passkeys: number }> {
    const values = [userId, madeBefore ?? null];
    const [removed] = await transaction.query<{ totp: number; passkeys: number }[]>(REMOVE_FACTORS, values);
    return removed ?? { totp: 0, passkeys: 0 };
  }
}
