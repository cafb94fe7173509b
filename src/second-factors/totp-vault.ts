import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { NIL } from 'uuid';
import { Environment } from '../config/environment.js';
import { SecretBox, type Encrypted } from '../crypto/secret-box.js';
import { Database } from '../database/database.js';
import { LOCKS } from '../database/locks.js';
import { Log } from '../logging/log.js';
import { READ_OUTDATED_SECRETS, REPLACE_SECRETS } from './factor-statements.js';

const BATCH_SIZE = 500;

interface OutdatedRow {
  readonly user_id: string;
  readonly encrypted_secret: Buffer;
}

interface Batch {
  readonly count: number;
  readonly unreadable: number;
  /** Undefined: there was no row left. */
  readonly last: string | undefined;
}

/** Encrypts TOTP secrets for the database, each for its user alone: a copied row is of no use to another account. */
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

  /** Tells rows of this key from rows of another one. */
  get keyMark(): Buffer {
    return this.box.keyMark;
  }

  encrypt(userId: string, secret: Buffer): Encrypted {
    return this.box.encrypt(secret, userId);
  }

  /** @returns undefined when neither SECRET_KEY nor SECRET_KEY_PREVIOUS decrypts it */
  decrypt(userId: string, encrypted: Buffer): Buffer | undefined {
    return this.box.decrypt(encrypted, userId)?.plaintext;
  }

  /**
   * Encrypts with SECRET_KEY what was encrypted with SECRET_KEY_PREVIOUS. A secret of neither stays: its user gets 503,
   * and has the recovery codes.
   * @throws {LockNotAcquiredError} when another replica holds the lock
   */
  async reencrypt(): Promise<void> {
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
    const values = [this.keyMark, after, BATCH_SIZE];
    const rows = await transaction.query<OutdatedRow[]>(READ_OUTDATED_SECRETS, values);
    if (rows.length === 0) return { count: 0, unreadable: 0, last: undefined };
    const readable = rows.flatMap(({ user_id: id, encrypted_secret: former }) => {
      const secret = this.decrypt(id, former);
      return secret ? [{ id, former, encrypted: this.encrypt(id, secret) }] : [];
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
