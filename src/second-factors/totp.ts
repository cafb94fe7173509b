/**
 * Codes of authenticator apps (TOTP, RFC 6238) and recovery codes: secrets and how they are stored; codes verified, counted
 * when wrong, and consumed. Invariants: a secret is in the database only encrypted, for its user alone: copied to another
 * account it is useless. A code works once: a conditional statement consumes it in the transaction of the act that it
 * authorises, so a failed act costs none. A guess is reserved in the throttle before a code is compared. A wrong or consumed
 * code spends it, anything else refunds it. Enrolment and routes: totp-enrolment.ts.
 */
import { Injectable } from '@nestjs/common';
import { HOTP, Secret, TOTP } from 'otpauth';
import qrcode from 'qrcode-generator';
import type { EntityManager } from 'typeorm';
import { NIL } from 'uuid';
import { toUserActor, type Actor } from '../access/actor.js';
import { toUserEvent, withAuditEvent } from '../audit/audit-events.js';
import { AuditLog } from '../audit/audit-log.js';
import { Environment } from '../config/environment.js';
import { SecretBox, type Encrypted } from '../crypto/secret-box.js';
import { computeDigest, generateSecretBytes, isSameSecret, type SecretDigest } from '../crypto/secret.js';
import { Database, DatabaseClock } from '../database/database.js';
import { LOCKS } from '../database/locks.js';
import { Log } from '../logging/log.js';
import { ProblemException, problems } from '../problems/problems.js';
import { CodeThrottle, type CodeGuess } from '../throttling/guess-throttles.js';
import { RefusedProofError, type UseProof, type UserWithFactors } from './second-factors.service.js';

/** What every authenticator app supports: SHA-1, 6 digits, 30 seconds (RFC 6238 §1.2). */
const ALGORITHM = 'SHA1';
const DIGITS = 6;
const STEP_SECONDS = 30;
/** RFC 4226 §4, R6. */
const SECRET_BYTES = 20;
/** The code before and the code after are accepted too (RFC 6238 §5.2). */
const WINDOW = [0, -1, 1];
const QR_MARGIN = 4;
const REENCRYPTION_BATCH_SIZE = 500;

/** Compares with `<` and `>` instead of `<>`, for which PostgreSQL uses no index. */
const READ_OUTDATED_SECRETS = `SELECT user_id, encrypted_secret FROM totp_factors
  WHERE (key_mark < $1 OR key_mark > $1) AND user_id > $2 ORDER BY user_id LIMIT $3`;

/** `$3` is what was decrypted: a secret that was enrolled meanwhile stays. */
const REPLACE_SECRETS = `UPDATE totp_factors SET encrypted_secret = given.encrypted, key_mark = $4
  FROM unnest($1::uuid[], $2::bytea[], $3::bytea[]) AS given (user_id, encrypted, former)
  WHERE totp_factors.user_id = given.user_id AND encrypted_secret = given.former`;

export function generateTotpSecret(): Buffer {
  return generateSecretBytes(SECRET_BYTES);
}

export function findTimeStep(secret: Buffer, code: string, now: Date): number | undefined {
  const currentStep = Math.floor(now.getTime() / 1_000 / STEP_SECONDS);
  const steps = WINDOW.map((offset) => currentStep + offset);
  return steps.find((step) => isSameSecret(computeTotpCode(secret, step), code));
}

export function computeTotpCode(secret: Buffer, step: number): string {
  return HOTP.generate({ secret: toSecret(secret), algorithm: ALGORITHM, digits: DIGITS, counter: step });
}

export function toBase32(bytes: Buffer): string {
  return toSecret(bytes).base32;
}

/** The URI that authenticator apps read (the Key URI Format of Google Authenticator). */
export function toOtpauthUrl(secret: Buffer, issuer: string, label: string): string {
  const settings = { algorithm: ALGORITHM, digits: DIGITS, period: STEP_SECONDS };
  return new TOTP({ issuer, label, secret: toSecret(secret), ...settings }).toString();
}

/** @returns an SVG with one path: a third of the size of the one that the library draws */
export function drawQrCode(text: string): string {
  const code = qrcode(0, 'M');
  code.addData(text);
  code.make();
  const size = code.getModuleCount();
  const positions = Array.from({ length: size }, (_, index) => index);
  const dark = positions.flatMap((row) =>
    positions
      .filter((column) => code.isDark(row, column))
      .map((column) => `M${column + QR_MARGIN} ${row + QR_MARGIN}h1v1h-1z`),
  );
  const side = size + 2 * QR_MARGIN;
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${side} ${side}" shape-rendering="crispEdges">` +
    `<path fill="#fff" d="M0 0h${side}v${side}H0z"/><path d="${dark.join('')}"/></svg>`
  );
}

function toSecret(bytes: Buffer): Secret {
  return new Secret({ buffer: Uint8Array.from(bytes).buffer });
}

interface OutdatedRow {
  readonly user_id: string;
  readonly encrypted_secret: Buffer;
}

interface Batch {
  readonly count: number;
  readonly unreadable: number;
  readonly last: string | undefined;
}

/** Encrypts the secrets for the database, and encrypts them again after a rotation of SECRET_KEY. */
@Injectable()
export class TotpVault {
  private readonly box: SecretBox;

  constructor(
    environment: Environment,
    private readonly database: Database,
    private readonly log: Log,
  ) {
    this.box = new SecretBox(environment, 'platform-auth totp secrets v1');
  }

  get keyMark(): Buffer {
    return this.box.keyMark;
  }

  encryptSecret(userId: string, secret: Buffer): Encrypted {
    return this.box.encrypt(secret, userId);
  }

  /** @returns undefined when neither SECRET_KEY nor SECRET_KEY_PREVIOUS decrypts it */
  decryptSecret(userId: string, encrypted: Buffer): Buffer | undefined {
    return this.box.decrypt(encrypted, userId)?.plaintext;
  }

  /**
   * Encrypts with SECRET_KEY what was encrypted with SECRET_KEY_PREVIOUS. A secret that neither decrypts stays: its user gets
   * 503 for codes, and can use the recovery codes.
   * @throws {LockNotAcquiredError} when another replica holds the lock
   */
  async reencryptSecrets(): Promise<void> {
    let [count, unreadable] = [0, 0];
    let after: string | undefined = NIL;
    while (after !== undefined) {
      const batch: Batch = await this.database.runAlone(LOCKS.totpSecrets, (transaction) =>
        this.reencryptBatch(transaction, after),
      );
      count += batch.count;
      unreadable += batch.unreadable;
      after = batch.last;
    }
    if (count > 0) this.log.info('totp_secrets_reencrypted', { count });
    if (unreadable > 0) this.log.error('totp_secrets_not_decrypted', { count: unreadable });
  }

  private async reencryptBatch(transaction: EntityManager, after: string | undefined): Promise<Batch> {
    const values = [this.keyMark, after, REENCRYPTION_BATCH_SIZE];
    const rows = await transaction.query<OutdatedRow[]>(READ_OUTDATED_SECRETS, values);
    if (rows.length === 0) return { count: 0, unreadable: 0, last: undefined };
    const readable = rows.flatMap(({ user_id: id, encrypted_secret: former }) => {
      const secret = this.decryptSecret(id, former);
      return secret ? [{ id, former, encrypted: this.encryptSecret(id, secret) }] : [];
    });
    const [, count] = await transaction.query<[unknown, number]>(REPLACE_SECRETS, [
      readable.map(({ id }) => id),
      readable.map(({ encrypted }) => encrypted),
      readable.map(({ former }) => former),
      this.keyMark,
    ]);
    return { count, unreadable: rows.length - readable.length, last: rows.at(-1)?.user_id };
  }
}

const RECOVERY_CODE_COUNT = 10;
/** 120 bits: a plain digest is enough from 112 bits on (ASVS 6.5.2). */
const RECOVERY_CODE_BYTES = 15;
const RECOVERY_CODE_FORMAT = /^[a-z2-7]{24}$/;
const GROUP_OF_FOUR = /.{4}(?!$)/g;

const DELETE_RECOVERY_CODES = 'DELETE FROM recovery_codes WHERE user_id = $1';
const INSERT_RECOVERY_CODES =
  'INSERT INTO recovery_codes (user_id, digest) SELECT $1, digest FROM unnest($2::bytea[]) AS given (digest)';
const USE_RECOVERY_CODE = withAuditEvent({
  name: 'recovery_codes_use',
  text: `DELETE FROM recovery_codes WHERE user_id = $1 AND digest = $2 RETURNING user_id`,
});

/** Decides the race of one code that is sent several times: the time step only grows. */
const USE_TIME_STEP = `UPDATE totp_factors SET last_step = $2
  WHERE user_id = $1 AND confirmed_at IS NOT NULL AND (last_step IS NULL OR last_step < $2)`;

/** @returns new codes, each as six groups of four letters and digits; the former ones are void */
export async function replaceRecoveryCodes(transaction: EntityManager, userId: string): Promise<string[]> {
  const codes = Array.from({ length: RECOVERY_CODE_COUNT }, () =>
    toBase32(generateSecretBytes(RECOVERY_CODE_BYTES)).toLowerCase().replace(GROUP_OF_FOUR, '$&-'),
  );
  await transaction.query(DELETE_RECOVERY_CODES, [userId]);
  await transaction.query(INSERT_RECOVERY_CODES, [userId, codes.map(toRecoveryDigest)]);
  return codes;
}

/** @returns undefined for text that is not in the format of a recovery code; case, blanks and dashes do not count */
function toRecoveryDigest(code: string): SecretDigest | undefined {
  const plain = code.toLowerCase().replace(/[\s-]/g, '');
  return RECOVERY_CODE_FORMAT.test(plain) ? computeDigest(plain) : undefined;
}

interface PresentedCode {
  readonly user: UserWithFactors;
  readonly code: string;
  readonly actor: Actor;
}

/** The act that a code authorises. It calls `useCode` in its transaction. */
type Act<Result> = (useCode: UseProof) => Promise<Result>;

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

  async acceptCode<Result>(method: CodeGuess['method'], presented: PresentedCode, act: Act<Result>): Promise<Result> {
    const { id, confirmedAt } = presented.user;
    // Without a factor there is nothing to guess, so the refusal spends no guess.
    if (!confirmedAt) throw new RefusedProofError('no_factor', id);
    const guess = { counted: id, method, address: presented.actor.address };
    return this.verifyThrottled(guess, async () => act(await this.verifyCode(method, presented)));
  }

  /** For a user who is logged in: takes a code of the app, or a recovery code, because the app may be lost. */
  async acceptAnyCode<Result>(presented: PresentedCode, act: Act<Result>): Promise<Result> {
    return this.acceptCode(toRecoveryDigest(presented.code) ? 'recovery_code' : 'totp', presented, act);
  }

  /** Verifies the code that confirms an enrolment. The statement that confirms consumes it. */
  async verifyEnrolmentCode({ user, code, actor }: PresentedCode): Promise<number> {
    if (!user.encryptedSecret || isVoidEnrolment(user)) throw new RefusedProofError('no_factor', user.id);
    // A caller needs no password here, so wrong codes use up guesses of this enrolment alone, and none of a login.
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
      const fault = { user_id: id, reason: 'neither SECRET_KEY nor SECRET_KEY_PREVIOUS decrypts the TOTP secret' };
      throw new ProblemException(problems.totpSecretUnreadable, { fault });
    }
    const step = findTimeStep(secret, code, await this.databaseClock.now());
    if (step === undefined) throw new WrongCodeError('wrong_code', id);
    return step;
  }
}

/** An enrolment began with the password, so another password voids it. */
function isVoidEnrolment({ enrolledAt, passwordChangedAt }: UserWithFactors): boolean {
  return enrolledAt !== null && passwordChangedAt !== null && enrolledAt <= passwordChangedAt;
}
