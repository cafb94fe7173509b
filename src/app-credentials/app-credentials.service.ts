/**
 * App credentials: which service (caller) may call which (target). Their keys live in keys/key-store.ts. Invariant: a pair
 * has at most one that is neither revoked nor expired. A revoked credential stays as a row until it is purged.
 */
import { Inject, Injectable } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import {
  Column,
  Entity,
  Index,
  IsNull,
  LessThanOrEqual,
  MoreThan,
  PrimaryColumn,
  type EntityManager,
  type Repository,
} from 'typeorm';
import type { Actor } from '../access/actor.js';
import { AuditLog } from '../audit/audit-log.js';
import { createId } from '../common/ids.js';
import { ComparedClock } from '../database/compared-clock.js';
import { findPage, type Page, type PageRequest } from '../http/page.js';
import { ProblemException, problems } from '../problems/problems.js';
import { KeyColumns, toKeyFilters, type IssuedCredential, type KeyFilter, type KeyTable } from '../keys/key-table.js';
import type { KeyStore } from '../keys/key-store.js';
import { getViolatedConstraint } from '../database/database-failure.js';

@Entity('app_credentials')
@Index('app_credentials_live_pair_key', ['caller', 'target'], { unique: true, where: 'revoked_at IS NULL' })
@Index('app_credentials_dead_at_idx', { synchronize: false })
export class AppCredential extends KeyColumns {
  @PrimaryColumn({ type: 'uuid', primaryKeyConstraintName: 'app_credentials_pkey' })
  declare id: string;

  @Column({ type: 'text' })
  caller!: string;

  @Column({ type: 'text' })
  target!: string;
}

export interface AppIdentity {
  readonly caller: string;
  readonly target: string;
}

export const APP_KEYS = Symbol('APP_KEYS');
export type AppKeys = KeyStore<AppCredential, AppIdentity>;
export const APP_KEY_TABLE: KeyTable<AppCredential> = {
  name: 'app_credentials',
  door: 'app',
  auditPrefix: 'admin.app_credential',
  identityColumns: ['caller', 'target'],
  targetColumn: 'target',
  keyPrefix: 'pa_app_',
  getTarget: ({ target }) => target,
  toLogFields: ({ id, caller, target }) => ({ app_id: id, calling_service: caller, called_service: target }),
};

/** Undefined: any. */
type AppFilter = KeyFilter & Readonly<Record<keyof AppIdentity, string | undefined>>;

@Injectable()
export class AppCredentialsService {
  constructor(
    @InjectRepository(AppCredential) private readonly credentials: Repository<AppCredential>,
    @Inject(APP_KEYS) readonly keys: AppKeys,
    private readonly audit: AuditLog,
    private readonly clock: ComparedClock,
  ) {}

  /** @throws {ProblemException} app_credential_exists while the pair has a live credential */
  async issueAppCredential(
    { caller, target, expiresAt }: Pick<AppCredential, 'caller' | 'target' | 'expiresAt'>,
    actor: Actor,
  ): Promise<IssuedCredential<AppCredential>> {
    const { key, keyDigest } = this.keys.issueKey();
    // A wrong clock would revoke the pair's credential as expired.
    const now = this.clock.trustedNow();
    const row = { id: createId(), caller, target, expiresAt, keyDigest, createdAt: now, updatedAt: now };
    const credential = this.credentials.create(row);
    try {
      await this.credentials.manager.transaction(async (transaction) => {
        await this.revokeExpired(transaction, { caller, target }, now, actor);
        await transaction.insert(AppCredential, credential);
        await this.audit.record(transaction, {
          event: 'admin.app_credential.minted',
          actor,
          time: now,
          subject: credential.id,
          details: { after: { caller, target, expires_at: expiresAt } },
          logFields: APP_KEY_TABLE.toLogFields(credential),
        });
      });
    } catch (error) {
      if (getViolatedConstraint(error) === 'app_credentials_live_pair_key')
        throw new ProblemException(problems.appCredentialExists);
      throw error;
    }
    return { credential, key };
  }

  async listAppCredentials(page: PageRequest, filter: AppFilter): Promise<Page<AppCredential>> {
    const { caller, target } = filter;
    return findPage(this.credentials, page, { caller, target }, toKeyFilters(filter, this.clock.now()));
  }

  /** @returns credentials that are neither revoked nor expired: at most one for each pair */
  async listLiveAppCredentials(): Promise<AppCredential[]> {
    const expiry = [IsNull(), MoreThan(this.clock.now())];
    const where = expiry.map((expiresAt) => ({ revokedAt: IsNull(), expiresAt }));
    return this.credentials.find({ where, order: { caller: 'ASC', target: 'ASC' } });
  }

  /** Without this, the unique index would let an expired credential block its pair. */
  private async revokeExpired(transaction: EntityManager, pair: AppIdentity, now: Date, actor: Actor): Promise<void> {
    const revoked = await transaction
      .createQueryBuilder()
      .update(AppCredential)
      .set({ revokedAt: now, revokedByRequest: actor.requestId, updatedAt: now })
      .where({ ...pair, revokedAt: IsNull(), expiresAt: LessThanOrEqual(now) })
      .returning('id')
      .execute();
    const details = { before: { revoked_at: null }, after: { revoked_at: now } };
    for (const { id } of revoked.raw as { id: string }[]) {
      await this.audit.record(transaction, {
        event: 'admin.app_credential.revoked',
        actor,
        time: now,
        subject: id,
        details,
      });
    }
  }
}
