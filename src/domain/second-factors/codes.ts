/**
 * Codes of authenticator apps, and recovery codes. A code works once: a conditional statement consumes it in the
 * transaction of the action that it authorises, so that a failed action costs no code. A guess is reserved in the throttle
 * before a code is compared; a wrong or consumed code spends it, and every other outcome refunds it.
 */
import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { toUserActor, type Actor } from '../../foundation/access/actor.js';
import { toUserEvent, withAuditEvent } from '../audit/audit-events.js';
import { AuditLog } from '../audit/audit-log.js';
import { computeDigest, generateSecretBytes, type SecretDigest } from '../../foundation/crypto/secret.js';
import { DatabaseClock } from '../../foundation/database/database.js';
import { ProblemException, problems } from '../../foundation/problems/problems.js';
import { CodeThrottle, type CodeGuess } from '../../foundation/throttling/guess-throttles.js';
import { RefusedProofError, type UseProof, type UserWithFactors } from './second-factors.service.js';
import { findTimeStep, toBase32, TotpVault } from './totp.js';

const RECOVERY_CODE_COUNT = 10;
/** 160 bits (ASVS 11.5.1); from 112 bits on a plain digest is enough (6.5.2). */
const RECOVERY_CODE_BYTES = 20;
const RECOVERY_CODE_FORMAT = /^[a-z2-7]{32}$/;
const GROUP_OF_FOUR = /.{4}(?!$)/g;

const DELETE_RECOVERY_CODES = 'DELETE FROM recovery_codes WHERE user_id = $1';
const INSERT_RECOVERY_CODES =
  'INSERT INTO recovery_codes (user_id, digest) SELECT $1, digest FROM unnest($2::bytea[]) AS given (digest)';
const USE_RECOVERY_CODE = withAuditEvent({
  name: 'recovery_codes_use',
  text: `DELETE FROM recovery_codes WHERE user_id = $1 AND digest = $2 RETURNING user_id`,
});

/** Accepts one of several concurrent calls with the same code, because the time step only grows. */
const USE_TIME_STEP = `UPDATE totp_factors SET last_step = $2
  WHERE user_id = $1 AND confirmed_at IS NOT NULL AND (last_step IS NULL OR last_step < $2)`;

/** Issues new codes and voids the former ones. @returns codes of eight groups of four letters and digits */
export async function replaceRecoveryCodes(transaction: EntityManager, userId: string): Promise<string[]> {
  const codes = Array.from({ length: RECOVERY_CODE_COUNT }, () =>
    toBase32(generateSecretBytes(RECOVERY_CODE_BYTES)).toLowerCase().replace(GROUP_OF_FOUR, '$&-'),
  );
  await transaction.query(DELETE_RECOVERY_CODES, [userId]);
  await transaction.query(INSERT_RECOVERY_CODES, [userId, codes.map(toRecoveryDigest)]);
  return codes;
}

/** Ignores case, blanks and dashes. @returns undefined for text in another format */
function toRecoveryDigest(code: string): SecretDigest | undefined {
  const plain = code.toLowerCase().replace(/[\s-]/g, '');
  return RECOVERY_CODE_FORMAT.test(plain) ? computeDigest(plain) : undefined;
}

interface PresentedCode {
  readonly user: UserWithFactors;
  readonly code: string;
  readonly actor: Actor;
}

/** The action that a code authorises. It must call `useCode` in its transaction. */
type Action<Result> = (useCode: UseProof) => Promise<Result>;

/** A wrong or consumed code, which spends a guess of the throttle. */
class WrongCodeError extends RefusedProofError {
  override readonly name = 'WrongCodeError';
}

@Injectable()
export class CodeVerifier {
  constructor(
    private readonly databaseClock: DatabaseClock,
    private readonly vault: TotpVault,
    private readonly throttle: CodeThrottle,
    private readonly audit: AuditLog,
  ) {}

  async acceptCode<Result>(
    method: CodeGuess['method'],
    presented: PresentedCode,
    action: Action<Result>,
  ): Promise<Result> {
    const { id, confirmedAt } = presented.user;
    // Spends no guess, because without a factor there is nothing to guess.
    if (!confirmedAt) throw new RefusedProofError('no_factor', id);
    const guess = { counted: id, method, address: presented.actor.address };
    return this.verifyThrottled(guess, async () => action(await this.verifyCode(method, presented)));
  }

  /** Accepts a code of the app or a recovery code of a logged-in user, because the app may be lost. */
  async acceptAnyCode<Result>(presented: PresentedCode, action: Action<Result>): Promise<Result> {
    return this.acceptCode(toRecoveryDigest(presented.code) ? 'recovery_code' : 'totp', presented, action);
  }

  /** Verifies the code that confirms an enrolment. The statement that confirms it consumes the code. */
  async verifyEnrolmentCode({ user, code, actor }: PresentedCode): Promise<number> {
    if (!user.encryptedSecret || isVoidEnrolment(user)) throw new RefusedProofError('no_factor', user.id);
    // Counts wrong codes for this enrolment alone: the caller needs no password here, and must not use up guesses of
    // logins.
    const enrolment = `${user.id} enrolled ${user.enrolledAt?.toISOString()}`;
    return this.verifyThrottled({ counted: enrolment, method: 'totp', address: actor.address }, () =>
      this.findStep(user, code),
    );
  }

  private async verifyCode(method: CodeGuess['method'], { user, code, actor }: PresentedCode): Promise<UseProof> {
    const { id } = user;
    if (method === 'totp') {
      const step = await this.findStep(user, code);
      return async (transaction) => {
        const [, count] = await transaction.query<[unknown, number]>(USE_TIME_STEP, [id, step]);
        if (count === 0) throw new WrongCodeError('repeated_code', id);
      };
    }
    const digest = toRecoveryDigest(code);
    if (!digest) throw new WrongCodeError('wrong_code', id);
    const event = toUserEvent('user.recovery_code.used', toUserActor(actor, id), id);
    return async (transaction) => {
      const used = await this.audit.execute(USE_RECOVERY_CODE, [id, digest], event, transaction);
      if (used.length === 0) throw new WrongCodeError('wrong_code', id);
    };
  }

  private async verifyThrottled<Result>(guess: CodeGuess, verify: () => Promise<Result>): Promise<Result> {
    const verdict = await this.throttle.countCodeGuess(guess, async () => {
      try {
        return { valid: true, result: await verify() } as const;
      } catch (error) {
        if (error instanceof WrongCodeError) return { valid: false, error } as const;
        throw error;
      }
    });
    if (!verdict.valid) throw verdict.error;
    return verdict.result;
  }

  private async findStep({ id, encryptedSecret }: UserWithFactors, code: string): Promise<number> {
    const secret = encryptedSecret && this.vault.decryptSecret(id, encryptedSecret);
    if (!secret) {
      const fault = { user_id: id, reason: 'neither MASTER_KEY nor MASTER_KEY_PREVIOUS decrypts the TOTP secret' };
      throw new ProblemException(problems.totpSecretUnreadable, { fault });
    }
    const step = findTimeStep(secret, code, await this.databaseClock.now());
    if (step === undefined) throw new WrongCodeError('wrong_code', id);
    return step;
  }
}

/**
 * Another password voids an enrolment, because the enrolment began with the former one. So does another set of factors:
 * an enrolment that began without a factor must not be confirmed on an account that has one, without a fresh proof.
 */
function isVoidEnrolment({ enrolledAt, passwordChangedAt, factorsChangedAt }: UserWithFactors): boolean {
  return [passwordChangedAt, factorsChangedAt].some((at) => enrolledAt !== null && at !== null && enrolledAt <= at);
}
