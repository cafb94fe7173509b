/**
 * Authenticator apps (TOTP, RFC 6238): secrets, their storage, their codes, and the QR code of an enrolment. Invariant:
 * the database has a secret only in encrypted form, bound to its user, so that a row that is copied to another account
 * is useless. totp.service.ts has the enrolment, codes.ts the verification of codes.
 */
import { Injectable } from '@nestjs/common';
import { HOTP, Secret, TOTP } from 'otpauth';
import qrcode from 'qrcode-generator';
import type { EntityManager } from 'typeorm';
import { NIL } from 'uuid';
import { Environment } from '../../foundation/config/environment.js';
import { SecretBox, type Encrypted } from '../../foundation/crypto/secret-box.js';
import { generateSecretBytes, isSameDigest, isSameSecret } from '../../foundation/crypto/secret.js';
import { Database } from '../../foundation/database/database.js';
import { LOCKS } from '../../foundation/database/locks.js';
import { Log } from '../../foundation/logging/log.js';

/** Every authenticator app supports SHA-1, 6 digits and 30 seconds (RFC 6238 §1.2). */
const ALGORITHM = 'SHA1';
const DIGITS = 6;
const STEP_SECONDS = 30;
/** The recommended length (RFC 4226 §4, R6). */
const SECRET_BYTES = 20;
/** Offsets of the accepted time steps: the present one, one before and one after (RFC 6238 §5.2). */
const WINDOW = [0, -1, 1];
const QR_MARGIN = 4;
const REENCRYPTION_BATCH_SIZE = 500;

/** Compares with `<` and `>`, because PostgreSQL uses no index for `<>`. */
const READ_OUTDATED_SECRETS = `SELECT user_id, encrypted_secret FROM totp_factors
  WHERE (key_mark < $1 OR key_mark > $1) AND user_id > $2 ORDER BY user_id LIMIT $3`;

/** `$3` is the decrypted value, so that a secret that was enrolled meanwhile stays. */
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

/** Formats the URI that authenticator apps read (Key URI Format of Google Authenticator). */
export function toOtpauthUrl(secret: Buffer, issuer: string, label: string): string {
  const settings = { algorithm: ALGORITHM, digits: DIGITS, period: STEP_SECONDS };
  return new TOTP({ issuer, label, secret: toSecret(secret), ...settings }).toString();
}

/** @returns an SVG with a single path, a third of the size of the library's */
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

/** Encrypts the secrets for the database, and encrypts them again after a rotation of MASTER_KEY. */
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

  /** @returns undefined when neither MASTER_KEY nor MASTER_KEY_PREVIOUS decrypts it */
  decryptSecret(userId: string, encrypted: Buffer): Buffer | undefined {
    return this.box.decrypt(encrypted, userId)?.plaintext;
  }

  isSameSecret(userId: string, one: Buffer, other: Buffer): boolean {
    const [secret, otherSecret] = [this.decryptSecret(userId, one), this.decryptSecret(userId, other)];
    return secret !== undefined && otherSecret !== undefined && isSameDigest(secret, otherSecret);
  }

  /**
   * Encrypts with MASTER_KEY what MASTER_KEY_PREVIOUS encrypted. A secret that neither decrypts stays: its user gets
   * 503 for codes of the app, and can use recovery codes.
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
