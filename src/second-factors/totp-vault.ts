import { Injectable, type OnModuleInit } from '@nestjs/common';
import { Environment } from '../config/environment.js';
import { decrypt, encrypt, type Encrypted } from '../crypto/encryption.js';
import { computeMac, deriveKey } from '../crypto/secret.js';
import { isDatabaseFailure } from '../database/database-failure.js';
import { Database } from '../database/database.js';
import { toErrorFields } from '../logging/log-line.js';
import { Log } from '../logging/log.js';
import { READ_OUTDATED_SECRETS, REPLACE_SECRETS } from './factor-statements.js';

const PURPOSE = 'platform-auth totp secrets v1';
const MARK_BYTES = 8;
const BATCH_SIZE = 500;

interface OutdatedRow {
  readonly user_id: string;
  readonly encrypted_secret: Buffer;
}

/** Encrypts TOTP secrets for the database, each for its user alone: a copied row is of no use to another account. */
@Injectable()
export class TotpVault implements OnModuleInit {
  /** Tells rows of this key from rows of another one, without decrypting them. */
  readonly keyMark: Buffer;
  private readonly current;
  private readonly previous;

  constructor(
    { secretKey, secretKeyPrevious }: Environment,
    private readonly database: Database,
    private readonly log: Log,
  ) {
    this.current = deriveKey(secretKey, PURPOSE);
    this.previous = secretKeyPrevious === undefined ? undefined : deriveKey(secretKeyPrevious, PURPOSE);
    this.keyMark = computeMac(this.current, 'key mark').subarray(0, MARK_BYTES);
  }

  async onModuleInit(): Promise<void> {
    try {
      await this.reencrypt();
    } catch (error) {
      // The maintenance job repeats it.
      if (!isDatabaseFailure(error)) throw error;
      this.log.warn('totp_secrets_not_read', { error: toErrorFields(error) });
    }
  }

  encrypt(userId: string, secret: Buffer): Encrypted {
    return encrypt(this.current, secret, userId);
  }

  /** @returns undefined when neither SECRET_KEY nor SECRET_KEY_PREVIOUS decrypts it */
  decrypt(userId: string, encrypted: Buffer): Buffer | undefined {
    return decrypt(this.current, encrypted, userId) ?? (this.previous && decrypt(this.previous, encrypted, userId));
  }

  /**
   * Encrypts with SECRET_KEY what was encrypted with SECRET_KEY_PREVIOUS. A secret of neither stays: its user gets 503,
   * and has the recovery codes.
   */
  async reencrypt(): Promise<void> {
    let [count, unreadable] = [0, 0];
    let after = '00000000-0000-0000-0000-000000000000';
    for (;;) {
      const rows = await this.database.rows<OutdatedRow>(READ_OUTDATED_SECRETS, [this.keyMark, after, BATCH_SIZE]);
      const last = rows.at(-1);
      if (!last) break;
      after = last.user_id;
      const replaced = rows.flatMap(({ user_id: id, encrypted_secret: former }) => {
        const secret = this.decrypt(id, former);
        return secret ? [{ id, former, encrypted: this.encrypt(id, secret) }] : [];
      });
      unreadable += rows.length - replaced.length;
      const columns = [
        replaced.map(({ id }) => id),
        replaced.map((row) => row.encrypted),
        replaced.map((row) => row.former),
      ];
      count += (await this.database.rows(REPLACE_SECRETS, [...columns, this.keyMark])).length;
    }
    if (count > 0) this.log.info('totp_secrets_reencrypted', { count });
    if (unreadable > 0) this.log.error('totp_secrets_not_decrypted', { count: unreadable });
  }
}
