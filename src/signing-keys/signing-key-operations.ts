import { Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import type { Actor } from '../access/actor.js';
import { AuditLog } from '../audit/audit-log.js';
import type { AuditEventName } from '../common/security-events.js';
import { DatabaseClock } from '../database/database.js';
import { Propagation } from '../revocation/propagation.js';
import { ACTIVATE_NEXT, RETIRE_ACTIVE, withSigningKeyLock } from './signing-key-rotation.js';
import { getSigningStart, SigningKey } from './signing-key.js';

/** The message tells the operator what to do. */
export class SigningKeyOperationError extends Error {
  override readonly name = 'SigningKeyOperationError';
}

/** What operators do with signing keys, on the database: neither a running service nor SECRET_KEY is needed. */
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

  /** @throws {SigningKeyOperationError} when the next key has not been shown for long enough */
  async rotateActiveKey(actor: Actor): Promise<void> {
    await this.changeKeys(async (transaction, now) => {
      const active = await transaction.findOneBy(SigningKey, { state: 'active' });
      if (!active) throw new SigningKeyOperationError('No key is active: the service makes one under ES256.');
      await this.replaceActive(transaction, now);
      await this.record(transaction, 'signing_key.retired', active, actor, now);
    });
  }

  /** @throws {SigningKeyOperationError} when the key does not exist, or is active and cannot be replaced yet */
  async retireKey(kid: string, actor: Actor): Promise<void> {
    await this.changeKeys(async (transaction, now) => {
      const key = await findKey(transaction, kid);
      if (key.state === 'active') await this.replaceActive(transaction, now);
      else if (key.state === 'next') await transaction.update(SigningKey, key.id, { state: 'retired', retiredAt: now });
      else return;
      await this.record(transaction, 'signing_key.retired', key, actor, now);
    });
  }

  /** Ends a stolen key and all its tokens. The next key replaces an active one at once, however short it was shown. */
  async revokeKey(kid: string, actor: Actor): Promise<void> {
    await this.changeKeys(async (transaction, now) => {
      const key = await findKey(transaction, kid);
      if (key.state === 'revoked') return;
      const revoked = { state: 'revoked', revokedAt: now, encryptedPrivateKey: null } as const;
      await transaction.update(SigningKey, key.id, revoked);
      if (key.state === 'active') await transaction.query(ACTIVATE_NEXT, [now]);
      await this.record(transaction, 'signing_key.revoked', key, actor, now);
    });
    // Also when it was revoked before: the call that revoked it may still be waiting.
    await this.propagation.awaitPropagation();
  }

  private async changeKeys(work: (transaction: EntityManager, now: Date) => Promise<void>): Promise<void> {
    const now = await this.clock.now();
    await withSigningKeyLock(this.dataSource, (transaction) => work(transaction, now));
  }

  private async replaceActive(transaction: EntityManager, now: Date): Promise<void> {
    const next = await transaction.findOneBy(SigningKey, { state: 'next' });
    if (!next) throw new SigningKeyOperationError('No key is next: the service makes one in its next maintenance job.');
    const start = getSigningStart(next.createdAt);
    if (now < start)
      throw new SigningKeyOperationError(
        `The next key may sign from ${start.toISOString()}: until then, services may hold a JWKS without it.`,
      );
    await transaction.query(RETIRE_ACTIVE, [now]);
    await transaction.query(ACTIVATE_NEXT, [now]);
  }

  private async record(
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
