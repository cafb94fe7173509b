import type { FactoryProvider, OnApplicationShutdown, OnModuleInit, Type } from '@nestjs/common';
import { getRepositoryToken } from '@nestjs/typeorm';
import type { Repository } from 'typeorm';
import { addSeconds, Clock } from '../common/clock.js';
import { isId } from '../common/ids.js';
import { ProblemException } from '../common/problem.exception.js';
import { problems } from '../common/problems.js';
import { digestOf, randomSecret, randomSecretBytes, sameDigest, type SecretDigest } from '../crypto/secret.js';
import { isWriteRefusal } from '../database/database-failure.js';
import { Database } from '../database/database.js';
import { errorFields } from '../logging/log-line.js';
import { Log } from '../logging/log.js';
import type { KeyColumns } from './key-columns.js';
import { keyStatements, type KeyStatements, type KeyTable } from './key-statements.js';

const LAST_USED_FLUSH_MS = 30_000;
/** Compared with when there is no digest, so that every refusal costs the same. */
const NOBODYS_DIGEST = digestOf(randomSecretBytes());

interface KeyRow {
  readonly key_digest: SecretDigest;
  readonly previous_key_digest: SecretDigest | null;
  readonly previous_key_expires_at: Date | null;
  readonly expires_at: Date | null;
  readonly revoked_at: Date | null;
}

export type Verdict<Identity> =
  | { readonly valid: true; readonly identity: Identity }
  | {
      readonly valid: false;
      readonly reason: 'unknown' | 'wrong_key' | 'revoked' | 'expired';
      readonly identity?: Identity;
    };

export interface IssuedKey {
  /** The only time the key is seen in plain text. */
  readonly key: string;
  readonly columns: Pick<
    KeyColumns,
    'keyDigest' | 'previousKeyDigest' | 'previousKeyExpiresAt' | 'rotatedAt' | 'revokedAt' | 'lastUsedAt'
  >;
}

/** The life of the generated keys of one table: issued, verified, rotated with an overlap, revoked, purged. */
export class KeyStore<Entity extends KeyColumns, Identity extends object>
  implements OnModuleInit, OnApplicationShutdown
{
  private readonly statements: KeyStatements;
  private lastUsed = new Map<string, Date>();
  private flushTimer: NodeJS.Timeout | undefined;

  constructor(
    private readonly table: KeyTable,
    private readonly repository: Repository<Entity>,
    private readonly database: Database,
    private readonly clock: Clock,
    private readonly log: Log,
  ) {
    this.statements = keyStatements(table);
  }

  onModuleInit(): void {
    this.flushTimer = setInterval(() => void this.flushLastUsed(), LAST_USED_FLUSH_MS).unref();
  }

  async onApplicationShutdown(): Promise<void> {
    clearInterval(this.flushTimer);
    await this.flushLastUsed();
  }

  issue(): IssuedKey {
    const key = randomSecret(this.table.keyPrefix);
    return {
      key,
      columns: {
        keyDigest: digestOf(key),
        previousKeyDigest: null,
        previousKeyExpiresAt: null,
        rotatedAt: null,
        revokedAt: null,
        lastUsedAt: null,
      },
    };
  }

  /**
   * One primary-key read and no write, save for the first use of a rotated key: that ends the old one before the
   * answer leaves.
   */
  async verify(id: string, key: string): Promise<Verdict<Identity>> {
    const presented = digestOf(key);
    const row = isId(id) ? await this.database.row<KeyRow & Identity>(this.statements.read, [id]) : undefined;
    const isCurrent = sameDigest(presented, row?.key_digest ?? NOBODYS_DIGEST);
    const isPrevious = sameDigest(presented, row?.previous_key_digest ?? NOBODYS_DIGEST);
    if (!row) return { valid: false, reason: 'unknown' };
    const now = this.clock.now();
    const overlaps = isPrevious && row.previous_key_expires_at !== null && row.previous_key_expires_at > now;
    if (!isCurrent && !overlaps) return { valid: false, reason: 'wrong_key', identity: row };
    if (row.revoked_at) return { valid: false, reason: 'revoked', identity: row };
    if (row.expires_at && row.expires_at <= now) return { valid: false, reason: 'expired', identity: row };
    // Another rotation came in between: what was read no longer holds.
    if (isCurrent && row.previous_key_digest && !(await this.endOverlap(id, presented))) return this.verify(id, key);
    this.lastUsed.set(id, now);
    return { valid: true, identity: row };
  }

  /**
   * Makes a new key that works at once. The key that is known to work stays good until the new one is first used
   * or the overlap is over: also when a rotation is repeated because its answer was lost.
   * @param overlapHours 0 ends the old key at once
   * @returns the new key in plain text
   * @throws {ProblemException} not_found; credential_revoked; credential_expired
   */
  async rotate(id: string, overlapHours: number): Promise<string> {
    const { key, columns } = this.issue();
    const now = this.clock.now();
    const overlapEnds = addSeconds(now, overlapHours * 3_600);
    const rotated = await this.database.row(this.statements.rotate, [id, columns.keyDigest, overlapEnds, now]);
    if (!rotated) throw await this.whyNotRotated(id);
    return key;
  }

  /**
   * From the commit on the key is refused everywhere. Revoking twice is one revocation.
   * @throws {ProblemException} not_found
   */
  async revoke(id: string): Promise<void> {
    const revoked = await this.database.row(this.statements.revoke, [id, this.clock.now()]);
    if (!revoked && !(await this.find(id))) throw new ProblemException(problems.notFound);
  }

  /** Deletes rows that were revoked or expired before a moment; see {@link Database.purge}. */
  async purge(deadBefore: Date, lock: number): Promise<number> {
    return this.database.purge(this.statements.purge, deadBefore, lock);
  }

  /** Writes down when keys were last used: one statement for all, not one a request. */
  async flushLastUsed(): Promise<void> {
    if (this.lastUsed.size === 0) return;
    const used = this.lastUsed;
    this.lastUsed = new Map();
    // In the order of their ids, so that two replicas cannot wait for each other.
    const ids = [...used.keys()].sort();
    try {
      await this.database.rows(this.statements.recordUse, [ids, ids.map((id) => used.get(id))]);
    } catch (error) {
      this.log.warning('last_used_not_recorded', { count: ids.length, error: errorFields(error) });
    }
  }

  /** @returns false when the key is not the current one any more */
  private async endOverlap(id: string, currentDigest: SecretDigest): Promise<boolean> {
    try {
      return (await this.database.row(this.statements.endOverlap, [id, currentDigest])) !== undefined;
    } catch (error) {
      // A database that reads but cannot write: the key is good, and the old one ends at its deadline.
      if (!isWriteRefusal(error)) throw error;
      this.log.warning('overlap_not_ended', { error: errorFields(error) });
      return true;
    }
  }

  private async find(id: string): Promise<Entity | null> {
    return this.repository.createQueryBuilder('credential').where('credential.id = :id', { id }).getOne();
  }

  private async whyNotRotated(id: string): Promise<ProblemException> {
    const credential = await this.find(id);
    if (!credential) return new ProblemException(problems.notFound);
    return new ProblemException(credential.revokedAt ? problems.credentialRevoked : problems.credentialExpired);
  }
}

/** Provides the key store of a table under an injection token. */
export function provideKeyStore<Entity extends KeyColumns>(
  token: symbol,
  entity: Type<Entity>,
  table: KeyTable,
): FactoryProvider {
  return {
    provide: token,
    inject: [getRepositoryToken(entity), Database, Clock, Log],
    useFactory: (repository: Repository<Entity>, database: Database, clock: Clock, log: Log) =>
      new KeyStore(table, repository, database, clock, log),
  };
}
