import { Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { createRefusal } from '../access/doors.js';
import type { UserPrincipal } from '../access/principals.js';
import { Clock } from '../common/clock.js';
import { Propagation } from '../keys/cache/propagation.js';
import { SessionsService } from '../tokens/sessions.service.js';
import { createWrongPassword } from '../users/password-proof.js';
import { LOCK_OWNER, READ_OWNER } from './factor-statements.js';

/** The user who changes the own factors. */
export interface FactorOwner {
  readonly userId: string;
  /** The session that asks. */
  readonly sessionId: string;
  /** As it was when the password, or the challenge bound to it, was verified. */
  readonly passwordChangedAt: Date | null;
}

/** @param user as it was read when the right to change the factors was established */
export function toFactorOwner(
  { userId, sessionId }: UserPrincipal,
  { passwordChangedAt }: Pick<FactorOwner, 'passwordChangedAt'>,
): FactorOwner {
  return { userId, sessionId, passwordChangedAt };
}

interface OwnerState {
  readonly isLive: boolean;
  readonly hasFactor: boolean;
}

/** Changes of the own factors. Each locks the row of the user, as a change of the password and the end of all sessions do. */
@Injectable()
export class FactorChanges {
  constructor(
    private readonly dataSource: DataSource,
    private readonly sessions: SessionsService,
    private readonly propagation: Propagation,
    private readonly clock: Clock,
  ) {}

  /**
   * Runs a change while the session is live and the password is unchanged. With the first factor all other sessions end:
   * they began without one. When it has returned, no verifier accepts a token of theirs.
   * @throws {ProblemException} wrong_password when it was changed meanwhile; invalid_access_token when the session has ended
   */
  async run<Result>(owner: FactorOwner, change: (transaction: EntityManager) => Promise<Result>): Promise<Result> {
    const { result, isFirst } = await this.dataSource.transaction(async (transaction) => {
      const { hasFactor } = await this.lock(transaction, owner);
      const changed = await change(transaction);
      const isFirstFactor = !hasFactor && (await this.read(transaction, owner)).hasFactor;
      if (isFirstFactor) await this.sessions.endAll(transaction, owner.userId, 'second_factor_added', owner.sessionId);
      return { result: changed, isFirst: isFirstFactor };
    });
    if (isFirst) await this.propagation.awaitPropagation();
    return result;
  }

  private async lock(transaction: EntityManager, owner: FactorOwner): Promise<OwnerState> {
    const { userId, passwordChangedAt } = owner;
    const [, locked] = await transaction.query<[unknown, number]>(LOCK_OWNER, [
      userId,
      this.clock.now(),
      passwordChangedAt,
    ]);
    // After the lock: a statement of its own sees what its holder before has committed.
    const state = await this.read(transaction, owner);
    if (!state.isLive) throw createRefusal('user', 'session_ended', { user_id: userId });
    if (locked === 0) throw createWrongPassword(userId, 'changed_meanwhile');
    return state;
  }

  private async read(transaction: EntityManager, { userId, sessionId }: FactorOwner): Promise<OwnerState> {
    const [state] = await transaction.query<OwnerState[]>(READ_OWNER, [userId, sessionId]);
    return state ?? { isLive: false, hasFactor: false };
  }
}
