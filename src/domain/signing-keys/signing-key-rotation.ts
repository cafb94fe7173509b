/**
 * The signing keys of ES256: their states, lifetimes and encryption. Before a key signs, the JWKS shows it for longer
 * than the JWKS may be cached; afterwards, for as long as its tokens live. Replicas agree through the database
 * (docs/decisions/0046): each change runs under one advisory lock.
 */
import { Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import type { Actor } from '../../foundation/access/actor.js';
import { AuditLog } from '../audit/audit-log.js';
import { addDays, addSeconds } from '../../foundation/common/clock.js';
import { createId } from '../../foundation/common/ids.js';
import type { AuditEventName } from '../../foundation/common/security-events.js';
import { Environment } from '../../foundation/config/environment.js';
import { exportPrivateKey, generateKeyPair, importKeyPair, type KeyPair } from '../../foundation/crypto/key-pair.js';
import { SecretBox, type Encrypted } from '../../foundation/crypto/secret-box.js';
import { DatabaseClock, Database, type Statement } from '../../foundation/database/database.js';
import { LOCKS } from '../../foundation/database/locks.js';
import { Log } from '../../foundation/logging/log.js';
import { Propagation } from '../revocation/propagation.js';
import { SigningKey, type SigningKeyState } from './signing-key.entity.js';

export const JWKS_MAX_AGE_SECONDS = 300;
/** How long the JWKS shows a key before it signs. Libraries cache a JWKS for 10 minutes by default. */
const PUBLICATION_SECONDS = 900;
/** Covers differing clocks, keys that a replica has not reread yet, and the interval at which uses are recorded. */
const MARGIN_SECONDS = 600;

/** @returns the earliest moment at which a token that is still valid can have been signed */
export function getOldestIssuedAt({ accessTokenExpireMinutes }: Environment, now: Date): Date {
  return addSeconds(now, -(accessTokenExpireMinutes * 60 + MARGIN_SECONDS));
}

function getSigningStart(createdAt: Date): Date {
  return addSeconds(createdAt, PUBLICATION_SECONDS);
}

/** The last condition prevents each replica from writing the row. */
const RECORD_SIGNING: Statement = {
  name: 'signing_algorithms_record',
  text: `INSERT INTO signing_algorithms (algorithm, last_signed_at) VALUES ($1, $2::timestamptz)
         ON CONFLICT (algorithm) DO UPDATE SET last_signed_at = EXCLUDED.last_signed_at
         WHERE signing_algorithms.last_signed_at IS NULL
           OR signing_algorithms.last_signed_at < EXCLUDED.last_signed_at - interval '30 seconds'`,
};

const READ_LAST_SIGNING = 'SELECT last_signed_at FROM signing_algorithms WHERE algorithm = $1';

const READ_ENCRYPTED: Statement = {
  name: 'signing_keys_read_encrypted',
  text: 'SELECT id, kid, state, encrypted_private_key FROM signing_keys WHERE encrypted_private_key IS NOT NULL',
};

/** Has no effect if another replica has replaced the ciphertext since it was read. */
const REPLACE_ENCRYPTED: Statement = {
  name: 'signing_keys_replace_encrypted',
  text: `UPDATE signing_keys SET encrypted_private_key = $2 WHERE id = $1 AND encrypted_private_key = $3 RETURNING id`,
};

const RETIRE_ACTIVE = `UPDATE signing_keys SET state = 'retired', retired_at = $1 WHERE state = 'active'`;
const ACTIVATE_NEXT = `UPDATE signing_keys SET state = 'active', activated_at = $1 WHERE state = 'next'`;
const RETIRE_UNUSED = `UPDATE signing_keys SET state = 'retired', retired_at = $1
  WHERE state IN ('next', 'active') AND GREATEST(created_at, activated_at) < $2`;

/** Erases keys that were retired before `$1`, because their tokens have expired. A revocation erases its key itself. */
const ERASE_PRIVATE_KEYS = `UPDATE signing_keys SET encrypted_private_key = NULL
  WHERE encrypted_private_key IS NOT NULL AND retired_at < $1`;

class UnreadableSigningKeyError extends Error {
  override readonly name = 'UnreadableSigningKeyError';

  constructor(kid: string) {
    super(
      `MASTER_KEY does not decrypt the signing key ${kid}. Set MASTER_KEY_PREVIOUS to the former value, or give ` +
        `the key up: platform-auth keys revoke ${kid}`,
    );
  }
}

async function replaceActive(transaction: EntityManager, now: Date): Promise<void> {
  await transaction.query(RETIRE_ACTIVE, [now]);
  await transaction.query(ACTIVATE_NEXT, [now]);
}

async function withSigningKeyLock<Result>(
  dataSource: DataSource,
  work: (transaction: EntityManager) => Promise<Result>,
): Promise<Result> {
  return dataSource.transaction(async (transaction) => {
    await transaction.query('SELECT pg_advisory_xact_lock($1)', [LOCKS.signingKeys]);
    return work(transaction);
  });
}

/**
 * Encrypts private keys for the database. The `kid` is authenticated, and the public key is derived from the private
 * one, so that a writer of the database cannot add a key without MASTER_KEY.
 */
@Injectable()
export class SigningKeyVault {
  private readonly box: SecretBox;

  constructor(environment: Environment) {
    this.box = new SecretBox(environment, 'platform-auth signing keys v1');
  }

  encryptKey(pair: KeyPair): Encrypted {
    return this.box.encrypt(exportPrivateKey(pair), pair.kid);
  }

  /** @returns undefined when neither MASTER_KEY nor MASTER_KEY_PREVIOUS decrypts the key */
  decryptKey(kid: string, encrypted: Buffer): { readonly pair: KeyPair; readonly isOutdated: boolean } | undefined {
    const opened = this.box.decrypt(encrypted, kid);
    if (!opened) return undefined;
    const pair = importKeyPair(opened.plaintext);
    return pair.kid === kid ? { pair, isOutdated: opened.isOutdated } : undefined;
  }
}

@Injectable()
export class SigningKeyRotation {
  constructor(
    private readonly dataSource: DataSource,
    private readonly database: Database,
    private readonly vault: SigningKeyVault,
    private readonly environment: Environment,
    private readonly clock: DatabaseClock,
    private readonly log: Log,
  ) {}

  /** Under ES256, ensures an active and a next key; under HS256, retires keys with which no replica signs. */
  async advanceKeys(): Promise<void> {
    const now = await this.clock.now();
    const oldestIssuedAt = getOldestIssuedAt(this.environment, now);
    const generated = await withSigningKeyLock(this.dataSource, async (transaction) => {
      const kids = await this.changeStates(transaction, now, oldestIssuedAt);
      await transaction.query(ERASE_PRIVATE_KEYS, [oldestIssuedAt]);
      return kids;
    });
    for (const kid of generated) this.log.info('signing_key_made', { kid });
  }

  /** Makes replicas that are configured with another algorithm accept this one from now on. */
  async recordSigning(): Promise<void> {
    const values = [this.environment.accessTokenAlgorithm, await this.clock.now()];
    await this.database.rows(RECORD_SIGNING, values);
  }

  /** @throws {UnreadableSigningKeyError} when a key that has to sign cannot be decrypted */
  async reencryptKeys(): Promise<void> {
    const rows = await this.database.rows<EncryptedRow>(READ_ENCRYPTED, []);
    for (const { id, kid, state, encrypted_private_key: encrypted } of rows) {
      const opened = this.vault.decryptKey(kid, encrypted);
      const isToSign = this.environment.accessTokenAlgorithm === 'ES256' && state !== 'retired';
      if (!opened && isToSign) throw new UnreadableSigningKeyError(kid);
      if (!opened?.isOutdated) continue;
      const values = [id, this.vault.encryptKey(opened.pair), encrypted];
      const replaced = await this.database.rows(REPLACE_ENCRYPTED, values);
      if (replaced.length > 0) this.log.info('signing_key_reencrypted', { kid });
    }
  }

  private async changeStates(transaction: EntityManager, now: Date, oldestIssuedAt: Date): Promise<string[]> {
    if (this.environment.accessTokenAlgorithm !== 'ES256') {
      const [use] = await transaction.query<{ last_signed_at: Date | null }[]>(READ_LAST_SIGNING, ['ES256']);
      const isUsed = use?.last_signed_at && use.last_signed_at > oldestIssuedAt;
      if (!isUsed) await transaction.query(RETIRE_UNUSED, [now, oldestIssuedAt]);
      return [];
    }
    const keys = await transaction.find(SigningKey, { where: [{ state: 'active' }, { state: 'next' }] });
    const active = keys.find(({ state }) => state === 'active');
    const next = keys.find(({ state }) => state === 'next');
    if (!next) return this.insertKeys(transaction, now, active ? ['next'] : ['active', 'next']);
    if (active && (!this.isDue(active, now) || now < getSigningStart(next.createdAt))) return [];
    await replaceActive(transaction, now);
    return this.insertKeys(transaction, now, ['next']);
  }

  private isDue({ activatedAt, createdAt }: SigningKey, now: Date): boolean {
    return now >= addDays(activatedAt ?? createdAt, this.environment.signingKeyDays);
  }

  private async insertKeys(transaction: EntityManager, now: Date, states: SigningKeyState[]): Promise<string[]> {
    const kids: string[] = [];
    for (const state of states) {
      const pair = generateKeyPair();
      await transaction.insert(SigningKey, {
        id: createId(),
        kid: pair.kid,
        algorithm: 'ES256',
        state,
        encryptedPrivateKey: this.vault.encryptKey(pair),
        createdAt: now,
        activatedAt: state === 'active' ? now : null,
      });
      kids.push(pair.kid);
    }
    return kids;
  }
}

type EncryptedRow = Pick<SigningKey, 'id' | 'kid' | 'state'> & { readonly encrypted_private_key: Buffer };

export class SigningKeyOperationError extends Error {
  override readonly name = 'SigningKeyOperationError';
}

/** What operators do with signing keys, directly in the database, without a running service and without MASTER_KEY. */
@Injectable()
export class SigningKeyOperations {
  constructor(
    private readonly dataSource: DataSource,
    private readonly audit: AuditLog,
    private readonly propagation: Propagation,
    private readonly clock: DatabaseClock,
  ) {}

  async listKeys(): Promise<SigningKey[]> {
    return this.dataSource.getRepository(SigningKey).find({ order: { createdAt: 'ASC', id: 'ASC' } });
  }

  /** @throws {SigningKeyOperationError} when the next key was not shown for long enough yet */
  async rotateActiveKey(actor: Actor): Promise<void> {
    await this.changeKeys(async (transaction, now) => {
      const active = await transaction.findOneBy(SigningKey, { state: 'active' });
      if (!active) throw new SigningKeyOperationError('No key is active: the service makes one under ES256.');
      await this.replaceActiveIfShown(transaction, now);
      await this.recordAct(transaction, 'signing_key.retired', active, actor, now);
    });
  }

  /** @throws {SigningKeyOperationError} when the key does not exist, or is active and cannot be replaced yet */
  async retireKey(kid: string, actor: Actor): Promise<void> {
    await this.changeKeys(async (transaction, now) => {
      const key = await findKey(transaction, kid);
      if (key.state === 'active') await this.replaceActiveIfShown(transaction, now);
      else if (key.state === 'next') await transaction.update(SigningKey, key.id, { state: 'retired', retiredAt: now });
      else return;
      await this.recordAct(transaction, 'signing_key.retired', key, actor, now);
    });
  }

  /**
   * Ends a stolen key and all its tokens. The next key replaces an active one at once, however briefly it was shown.
   */
  async revokeKey(kid: string, actor: Actor): Promise<void> {
    await this.changeKeys(async (transaction, now) => {
      const key = await findKey(transaction, kid);
      if (key.state === 'revoked') return;
      const revoked = { state: 'revoked', revokedAt: now, encryptedPrivateKey: null } as const;
      await transaction.update(SigningKey, key.id, revoked);
      if (key.state === 'active') await transaction.query(ACTIVATE_NEXT, [now]);
      await this.recordAct(transaction, 'signing_key.revoked', key, actor, now);
    });
    // Waits even for a key that was already revoked, because the call that revoked it may still be waiting.
    await this.propagation.awaitPropagation();
  }

  private async changeKeys(work: (transaction: EntityManager, now: Date) => Promise<void>): Promise<void> {
    const now = await this.clock.now();
    await withSigningKeyLock(this.dataSource, (transaction) => work(transaction, now));
  }

  private async replaceActiveIfShown(transaction: EntityManager, now: Date): Promise<void> {
    const next = await transaction.findOneBy(SigningKey, { state: 'next' });
    if (!next) throw new SigningKeyOperationError('No key is next: the service makes one in its next maintenance job.');
    const start = getSigningStart(next.createdAt);
    if (now < start)
      throw new SigningKeyOperationError(
        `The next key may sign from ${start.toISOString()}: until then, services may hold a JWKS without it.`,
      );
    await replaceActive(transaction, now);
  }

  private async recordAct(
    transaction: EntityManager,
    event: AuditEventName,
    { id, kid, state }: SigningKey,
    actor: Actor,
    time: Date,
  ): Promise<void> {
    const details = { kid, before: { state } };
    await this.audit.record(transaction, { event, actor, time, subject: id, details, logFields: { kid } });
  }
}

async function findKey(transaction: EntityManager, kid: string): Promise<SigningKey> {
  const key = await transaction.findOneBy(SigningKey, { kid });
  if (!key) throw new SigningKeyOperationError('No signing key has this kid. "keys list" shows them.');
  return key;
}
