/**
 * App credentials: which service (the caller) may call which (the target); keys/key-store.ts has their keys. Invariant:
 * each pair has at most one credential that is neither revoked nor expired. A revoked one stays as a row until it is
 * purged.
 */
import { Inject, Injectable } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import { IsNull, LessThanOrEqual, MoreThan, type EntityManager, type Repository } from 'typeorm';
import type { Actor } from '../../foundation/access/actor.js';
import { AuditLog } from '../audit/audit-log.js';
import { KEY_KINDS } from '../../foundation/common/key-kinds.js';
import { Environment } from '../../foundation/config/environment.js';
import { DELEGATION_ISSUER_DETAIL, isDelegationIssuer, UNUSED_DAYS } from '../../foundation/config/limits.js';
import { ComparedClock } from '../../foundation/database/compared-clock.js';
import { translateViolation } from '../../foundation/database/database-failure.js';
import { computeKeyEnd } from '../keys/key-lifecycle.js';
import type { KeyStore } from '../keys/key-store.js';
import { isLiveAt, toKeyFilters, type IssuedCredential, type KeyFilter, type KeyKind } from '../keys/key-record.js';
import { createFieldProblem, ProblemException, problems, refuseField } from '../../foundation/problems/problems.js';
import { AppCredential } from './app-credential.entity.js';
import { findPage, type Page, type PageRequest } from '../../foundation/database/page.js';

interface AppIdentity {
  readonly caller: string;
  readonly target: string;
  readonly scopes: readonly string[] | null;
}

export const APP_KEYS = Symbol('APP_KEYS');
export type AppKeys = KeyStore<AppCredential, AppIdentity>;
export const APP_KEY_KIND: KeyKind<AppCredential> = {
  name: 'app',
  ...KEY_KINDS.app,
  shared: { finishedEvent: 'admin.app_credential.rotation_finished' },
  identityColumns: ['caller', 'target', 'scopes'],
  labels: [],
  scopeUsesColumn: 'scope_uses',
  targetColumn: 'target',
  findViolation: ({ target, scopes }, asked) => {
    if (asked.target !== undefined && asked.target !== target)
      return {
        code: 'other_target',
        detail: `It is valid at ${target} only. Each pair of services has its own credential.`,
      };
    if (asked.scope === undefined || !scopes || (asked.scope !== null && scopes.includes(asked.scope)))
      return undefined;
    return { code: 'missing_scope', detail: `It has these scopes only: ${scopes.join(', ')}. Its key is valid.` };
  },
  toLogFields: ({ id, caller, target }) => ({ app_id: id, calling_service: caller, called_service: target }),
  toChangeableFields: ({ scopes, forUsers }) => ({ ...(scopes && { scopes }), ...(forUsers && { for_users: true }) }),
  toFixedFields: ({ caller, target, expiresAt, lifeDays }) => ({
    caller,
    target,
    expires_at: expiresAt,
    ...(lifeDays !== null && { life_days: lifeDays }),
  }),
  getLifeDays: ({ lifeDays }) => lifeDays,
};

interface NewAppCredential extends AppIdentity {
  readonly forUsers?: boolean | undefined;
  /** Null: the credential never expires. Undefined: its keys live for APP_KEY_DAYS. */
  readonly expiresAt?: Date | null | undefined;
}

export interface UnusedScope {
  readonly app_id: string;
  readonly caller: string;
  readonly target: string;
  readonly scope: string;
}

const NEEDS_SCOPES = 'must name scopes, because the credential is for users';
export const MAX_UNUSED_SCOPES = 100;
const UNUSED_SCOPES = `SELECT id AS app_id, caller, target, scope FROM app_credentials, unnest(scopes) AS scope
  WHERE ${isLiveAt('$1::timestamptz')}
    AND GREATEST(created_at, scopes_changed_at, (scope_uses ->> scope)::timestamptz)
      < $1 - interval '${UNUSED_DAYS} days'
  ORDER BY caller, target, scope LIMIT ${MAX_UNUSED_SCOPES}`;

type AppFilter = KeyFilter & Readonly<Record<'caller' | 'target', string | undefined>>;

@Injectable()
export class AppCredentialsService {
  constructor(
    @InjectRepository(AppCredential) private readonly credentials: Repository<AppCredential>,
    @Inject(APP_KEYS) readonly keys: AppKeys,
    private readonly audit: AuditLog,
    private readonly environment: Environment,
    private readonly clock: ComparedClock,
  ) {}

  /** @throws {ProblemException} app_credential_exists while the pair has a live credential */
  async issueAppCredential(
    { caller, target, scopes, forUsers = false, expiresAt }: NewAppCredential,
    actor: Actor,
  ): Promise<IssuedCredential<AppCredential>> {
    this.refuseUnusableForUsers({ target, scopes, forUsers });
    // A fast clock would revoke the pair's valid credential as expired.
    const now = this.clock.trustedNow();
    const lifeDays = expiresAt === undefined ? (this.environment.appKeyDays ?? null) : null;
    const expiry = { lifeDays, expiresAt: computeKeyEnd(now, lifeDays) ?? expiresAt ?? null };
    const issued = this.keys.createCredential({ caller, target, scopes, scopeUses: {}, forUsers, ...expiry }, now);
    const insert = this.credentials.manager.transaction(async (transaction) => {
      await this.revokeExpired(transaction, { caller, target }, now, actor);
      await this.keys.insertCredential(transaction, issued.credential, actor);
    });
    const createTaken = () => new ProblemException(problems.appCredentialExists);
    await translateViolation(insert, 'app_credentials_live_pair_key', createTaken);
    return issued;
  }

  /** Keeps the key. @param change `scopes` null for every scope of the target; what is undefined stays */
  async updateAppCredential(
    id: string,
    { scopes, forUsers }: { scopes?: readonly string[] | null | undefined; forUsers?: boolean | undefined },
    actor: Actor,
  ): Promise<AppCredential> {
    const now = this.clock.now();
    const change = {
      ...(scopes !== undefined && { scopes, scopesChangedAt: now }),
      ...(forUsers !== undefined && { forUsers, forUsersChangedAt: now }),
    };
    const before = await this.keys.requireCredential(id);
    this.refuseUnusableForUsers({ ...before, ...change });
    const update = this.keys.updateCredential(id, change, actor);
    // Another operator changed the other field meanwhile.
    return translateViolation(update, 'app_credentials_for_users_check', () =>
      createFieldProblem('/scopes', NEEDS_SCOPES),
    );
  }

  private refuseUnusableForUsers(pair: Pick<AppCredential, 'target' | 'scopes' | 'forUsers'>): void {
    if (!pair.forUsers) return;
    if (pair.scopes === null) refuseField('/scopes', NEEDS_SCOPES);
    if (pair.target === this.environment.serviceName) refuseField('/for_users', 'is not for calls of this service');
    if (!isDelegationIssuer(this.environment.jwtIssuer)) refuseField('/for_users', DELEGATION_ISSUER_DETAIL);
  }

  /** @returns scopes of live credentials that were neither used nor changed in {@link UNUSED_DAYS} days */
  async listUnusedScopes(): Promise<UnusedScope[]> {
    return this.credentials.query(UNUSED_SCOPES, [this.clock.now()]);
  }

  async listAppCredentials(page: PageRequest, filter: AppFilter): Promise<Page<AppCredential>> {
    const { caller, target } = filter;
    return findPage(this.credentials, page, { caller, target }, toKeyFilters(filter, this.clock.now()));
  }

  /** @returns the credentials that are neither revoked nor expired: at most one for each pair */
  async listLiveAppCredentials(): Promise<AppCredential[]> {
    const expiry = [IsNull(), MoreThan(this.clock.now())];
    const where = expiry.map((expiresAt) => ({ revokedAt: IsNull(), expiresAt }));
    return this.credentials.find({ where, order: { caller: 'ASC', target: 'ASC' } });
  }

  /** The unique index ignores revoked credentials only, so an expired one would block its pair. */
  private async revokeExpired(
    transaction: EntityManager,
    pair: Pick<AppIdentity, 'caller' | 'target'>,
    now: Date,
    actor: Actor,
  ): Promise<void> {
    const revoked = await transaction
      .createQueryBuilder()
      .update(AppCredential)
      .set({ revokedAt: now, revokedByRequest: actor.requestId, updatedAt: now })
      .where({ ...pair, revokedAt: IsNull(), expiresAt: LessThanOrEqual(now) })
      .returning('id')
      .execute();
    const details = { before: { revoked_at: null }, after: { revoked_at: now } };
    const act = { event: 'admin.app_credential.revoked', actor, time: now, details } as const;
    for (const { id } of revoked.raw as { id: string }[]) await this.audit.record(transaction, { ...act, subject: id });
  }
}
