import { Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { addDays } from '../common/clock.js';
import { createId } from '../common/ids.js';
import { Environment } from '../config/environment.js';
import { generateKeyPair } from '../crypto/key-pair.js';
import { DatabaseClock, Database } from '../database/database.js';
import { LOCKS } from '../database/locks.js';
import { Log } from '../logging/log.js';
import { KeyVault } from './key-vault.js';
import { getOldestIssuedAt, getSigningStart } from './lifetimes.js';
import * as sql from './signing-key-statements.js';
import { SigningKey, type SigningKeyState } from './signing-key.entity.js';

/** Neither SECRET_KEY nor SECRET_KEY_PREVIOUS decrypts a key that signs, or is to sign. */
export class UnreadableSigningKeyError extends Error {
  override readonly name = 'UnreadableSigningKeyError';

  constructor(kid: string) {
    super(
      `SECRET_KEY does not decrypt the signing key ${kid}. Set SECRET_KEY_PREVIOUS to the former value, or give the key ` +
        `up: platform-auth keys revoke ${kid}`,
    );
  }
}

/** Runs work alone among all replicas and commands that change signing keys. */
export async function withKeyLock<Result>(
  dataSource: DataSource,
  work: (transaction: EntityManager) => Promise<Result>,
): Promise<Result> {
  return dataSource.transaction(async (transaction) => {
    await transaction.query('SELECT pg_advisory_xact_lock($1)', [LOCKS.signingKeys]);
    return work(transaction);
  });
}

/** Makes signing keys, and moves them from state to state as time passes. */
@Injectable()
export class KeyRotation {
  constructor(
    private readonly dataSource: DataSource,
    private readonly database: Database,
    private readonly vault: KeyVault,
    private readonly environment: Environment,
    private readonly clock: DatabaseClock,
    private readonly log: Log,
  ) {}

  /**
   * Under ES256 there is an active key and a next one afterwards. Under HS256, keys that no replica signs with any more
   * are retired. Goes by the clock of PostgreSQL.
   */
  async run(): Promise<void> {
    const now = await this.clock.now();
    const oldestIssuedAt = getOldestIssuedAt(this.environment, now);
    const made = await withKeyLock(this.dataSource, async (transaction) => {
      const kids = await this.advance(transaction, now, oldestIssuedAt);
      await transaction.query(sql.ERASE_PRIVATE_KEYS, [oldestIssuedAt]);
      return kids;
    });
    for (const kid of made) this.log.info('signing_key_made', { kid });
  }

  /**
   * Encrypts with SECRET_KEY what was encrypted with SECRET_KEY_PREVIOUS.
   * @throws {UnreadableSigningKeyError} when a key that is to sign cannot be decrypted
   */
  async reencrypt(): Promise<void> {
    const rows = await this.database.rows<EncryptedRow>(sql.READ_ENCRYPTED, []);
    for (const { id, kid, state, encrypted_private_key: encrypted } of rows) {
      const opened = this.vault.decrypt(kid, encrypted);
      const isToSign = this.environment.accessTokenAlgorithm === 'ES256' && state !== 'retired';
      if (!opened && isToSign) throw new UnreadableSigningKeyError(kid);
      if (!opened?.isOutdated) continue;
      const values = [id, this.vault.encrypt(opened.pair), encrypted];
      const replaced = await this.database.rows(sql.REPLACE_ENCRYPTED, values);
      if (replaced.length > 0) this.log.info('signing_key_reencrypted', { kid });
    }
  }

  /** @returns the kids of new keys */
  private async advance(transaction: EntityManager, now: Date, oldestIssuedAt: Date): Promise<string[]> {
    if (this.environment.accessTokenAlgorithm !== 'ES256') {
      await this.retireUnused(transaction, now, oldestIssuedAt);
      return [];
    }
    const keys = await transaction.find(SigningKey, { where: [{ state: 'active' }, { state: 'next' }] });
    const active = keys.find(({ state }) => state === 'active');
    const next = keys.find(({ state }) => state === 'next');
    if (!next) return this.make(transaction, now, active ? ['next'] : ['active', 'next']);
    if (active && (!this.isDue(active, now) || now < getSigningStart(next.createdAt))) return [];
    await transaction.query(sql.RETIRE_ACTIVE, [now]);
    await transaction.query(sql.ACTIVATE_NEXT, [now]);
    return this.make(transaction, now, ['next']);
  }

  private isDue({ activatedAt, createdAt }: SigningKey, now: Date): boolean {
    return now >= addDays(activatedAt ?? createdAt, this.environment.signingKeyDays);
  }

  private async make(transaction: EntityManager, now: Date, states: SigningKeyState[]): Promise<string[]> {
    const kids: string[] = [];
    for (const state of states) {
      const pair = generateKeyPair();
      await transaction.insert(SigningKey, {
        id: createId(),
        kid: pair.kid,
        algorithm: 'ES256',
        state,
        encryptedPrivateKey: this.vault.encrypt(pair),
        createdAt: now,
        activatedAt: state === 'active' ? now : null,
      });
      kids.push(pair.kid);
    }
    return kids;
  }

  private async retireUnused(transaction: EntityManager, now: Date, oldestIssuedAt: Date): Promise<void> {
    const [use] = await transaction.query<{ last_signed_at: Date | null }[]>(sql.READ_LAST_SIGNING, ['ES256']);
    if (use?.last_signed_at && use.last_signed_at > oldestIssuedAt) return;
    await transaction.query(sql.RETIRE_UNUSED, [now, oldestIssuedAt]);
  }
}

interface EncryptedRow {
  readonly id: string;
  readonly kid: string;
  readonly state: SigningKeyState;
  readonly encrypted_private_key: Buffer;
}
