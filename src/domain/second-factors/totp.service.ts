/**
 * Enrolment, confirmation and removal of an authenticator app, and replacement of its recovery codes. An enrolment
 * begins with the password, or with the challenge of a login that demands a factor, and shows the secret; its
 * confirmation proves that the app has the secret, and from then on logins ask for codes. A new enrolment replaces an
 * unconfirmed one, and a change of the password or of the factors voids it.
 */
import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import type { Actor, OwnCall } from '../../foundation/access/actor.js';
import { Environment, getProductName } from '../../foundation/config/environment.js';
import { ComparedClock } from '../../foundation/database/compared-clock.js';
import { ProblemException, problems } from '../../foundation/problems/problems.js';
import { CodeVerifier, replaceRecoveryCodes } from './codes.js';
import { FactorChanges, type Change } from './factor-changes.js';
import type { OwnProof } from './reauthentication.js';
import { RefusedProofError, SecondFactorsService, type UserWithFactors } from './second-factors.service.js';
import { drawQrCode, generateTotpSecret, toBase32, toOtpauthUrl, TotpVault } from './totp.js';

/**
 * Returns no row when an enrolment is already confirmed. The moment of an enrolment is after the last change of the
 * password and of the factors, whatever the clocks of the replicas say.
 */
const ENROL_TOTP = `INSERT INTO totp_factors AS known (user_id, encrypted_secret, key_mark, created_at)
  SELECT id, $2, $3, GREATEST($4::timestamptz, password_changed_at + interval '1 millisecond',
    factors_changed_at + interval '1 millisecond')
  FROM users WHERE id = $1
  ON CONFLICT (user_id) DO UPDATE
    SET encrypted_secret = excluded.encrypted_secret, key_mark = excluded.key_mark, created_at = excluded.created_at
    WHERE known.confirmed_at IS NULL
  RETURNING user_id`;

/** Keeps a replica that encrypts secrets anew waiting until the enrolment is confirmed. */
const LOCK_SECRET = `SELECT encrypted_secret AS "encryptedSecret" FROM totp_factors WHERE user_id = $1 FOR UPDATE`;

/** `$4` is the secret with which the code was verified. Returns no row when a factor changed since the enrolment. */
const CONFIRM_TOTP = `UPDATE totp_factors SET confirmed_at = $2, last_step = $3
  WHERE user_id = $1 AND confirmed_at IS NULL AND encrypted_secret = $4
    AND created_at > (SELECT COALESCE(factors_changed_at, '-infinity') FROM users WHERE id = $1)
  RETURNING user_id`;

const HAS_TOTP = 'SELECT FROM totp_factors WHERE user_id = $1 AND confirmed_at IS NOT NULL';
const REMOVE_TOTP = 'DELETE FROM totp_factors WHERE user_id = $1';

export interface TotpEnrolment {
  readonly secret: string;
  readonly otpauthUrl: string;
  readonly qrSvg: string;
}

@Injectable()
export class TotpService {
  constructor(
    private readonly changes: FactorChanges,
    private readonly factors: SecondFactorsService,
    private readonly codes: CodeVerifier,
    private readonly vault: TotpVault,
    private readonly environment: Environment,
    private readonly clock: ComparedClock,
  ) {}

  async readEnrolment(userId: string): Promise<UserWithFactors> {
    const user = await this.factors.findUser(userId);
    if (!user.encryptedSecret) throw new ProblemException(problems.notFound);
    return user;
  }

  async enrolTotp(call: OwnCall, proof: OwnProof): Promise<TotpEnrolment> {
    const { userId: id, email } = call.principal;
    return this.enrol({ id, email }, (change) => this.changes.commitAction(call, proof, change));
  }

  /** Begins the enrolment of a user whom the login asked for it. */
  async enrolAtLogin(user: UserWithFactors, actor: Actor): Promise<TotpEnrolment> {
    return this.enrol(user, (change) => this.changes.commitAtLogin(user, actor, change));
  }

  /** Ends the user's other sessions when this is the first factor. @returns recovery codes */
  async confirmTotp(call: OwnCall, code: string): Promise<string[]> {
    const { actor } = call;
    const { userId } = call.principal;
    const user = await this.factors.findUser(userId);
    if (user.confirmedAt) return this.changes.refuseRepetition(problems.totpEnrolled);
    const createVoidError = () => new RefusedProofError('changed_meanwhile', userId);
    return this.factors.answerRefusals(problems.wrongSecondFactor, actor, async () => {
      const step = await this.codes.verifyEnrolmentCode({ user, code, actor });
      return this.changes.commitChange(call, user, this.toConfirmation(user, step), createVoidError);
    });
  }

  /** Ends all sessions of the user. @returns recovery codes @throws {RefusedProofError} */
  async confirmAtLogin(user: UserWithFactors, code: string, actor: Actor): Promise<string[]> {
    const step = await this.codes.verifyEnrolmentCode({ user, code, actor });
    return this.changes.commitAtLogin(user, actor, this.toConfirmation(user, step));
  }

  async removeTotp(call: OwnCall, proof: OwnProof): Promise<void> {
    await this.changes.commitAction(call, proof, async (transaction) => {
      await requireTotp(transaction, call);
      await transaction.query(REMOVE_TOTP, [call.principal.userId]);
      return { result: undefined, event: 'user.totp.removed' };
    });
  }

  async replaceRecoveryCodes(call: OwnCall, proof: OwnProof): Promise<string[]> {
    return this.changes.commitAction(call, proof, async (transaction) => {
      await requireTotp(transaction, call);
      const result = await replaceRecoveryCodes(transaction, call.principal.userId);
      return { result, event: 'user.recovery_codes.replaced' };
    });
  }

  private async enrol(
    { id, email }: Pick<UserWithFactors, 'id' | 'email'>,
    commit: (change: Change<void>) => Promise<void>,
  ): Promise<TotpEnrolment> {
    const secret = generateTotpSecret();
    const values = [id, this.vault.encryptSecret(id, secret), this.vault.keyMark, this.clock.now()];
    await commit(async (transaction) => {
      const enrolled = await transaction.query<unknown[]>(ENROL_TOTP, values);
      if (enrolled.length === 0) throw new ProblemException(problems.totpEnrolled);
      return { result: undefined, event: 'user.totp.started', keepsFactors: true };
    });
    const otpauthUrl = toOtpauthUrl(secret, getProductName(this.environment), email);
    return { secret: toBase32(secret), otpauthUrl, qrSvg: drawQrCode(otpauthUrl) };
  }

  /** @param step the time step of the code that the enrolment was verified with */
  private toConfirmation({ id, encryptedSecret }: UserWithFactors, step: number): Change<string[]> {
    return async (transaction) => {
      const [locked] = await transaction.query<[{ encryptedSecret: Buffer }?]>(LOCK_SECRET, [id]);
      // Another replica may have encrypted the secret anew since the code was verified.
      const isSame = locked && encryptedSecret && this.vault.isSameSecret(id, locked.encryptedSecret, encryptedSecret);
      const values = [id, this.clock.now(), step, isSame ? locked.encryptedSecret : encryptedSecret];
      const [confirmed] = await transaction.query<[unknown[], number]>(CONFIRM_TOTP, values);
      if (confirmed.length === 0) {
        if (await hasTotp(transaction, id)) throw new ProblemException(problems.totpEnrolled);
        // A concurrent call has changed the factors, or begun another enrolment.
        throw new RefusedProofError('changed_meanwhile', id);
      }
      return { result: await replaceRecoveryCodes(transaction, id), event: 'user.totp.enrolled' };
    };
  }
}

/** Without a confirmed app there is nothing to remove, and recovery codes replace nothing. */
async function requireTotp(transaction: EntityManager, { principal: { userId } }: OwnCall): Promise<void> {
  if (!(await hasTotp(transaction, userId))) throw new ProblemException(problems.notFound);
}

async function hasTotp(transaction: EntityManager, userId: string): Promise<boolean> {
  return (await transaction.query<unknown[]>(HAS_TOTP, [userId])).length > 0;
}
