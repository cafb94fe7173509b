/**
 * App credentials: which service (caller) may call which (target), and their door: `X-Platform-App-Id` and
 * `X-Platform-App-Key`. A key is valid at its target only: at this service, or at the service that has it validated by the
 * route below. The keys live in keys/key-store.ts. Invariant: a pair has at most one credential that is neither revoked nor
 * expired. A revoked credential stays as a row until it is purged.
 */
import { Controller, Inject, Injectable, Module, Post, Req } from '@nestjs/common';
import { PassportStrategy } from '@nestjs/passport';
import { ApiBody, ApiOperation, ApiProperty, ApiPropertyOptional, ApiTags } from '@nestjs/swagger';
import { InjectRepository, TypeOrmModule } from '@nestjs/typeorm';
import type { Request } from 'express';
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
import { getPrincipal, toActor, type Actor, type AppPrincipal } from '../access/actor.js';
import { createRefusal, Doors, HeaderKeyStrategy } from '../access/doors.js';
import { Answers, RequirePresentedApp } from '../access/require.js';
import { AuditLog } from '../audit/audit-log.js';
import { EXAMPLES } from '../common/names.js';
import { APP_SCOPES, ID, ServiceNameField } from '../common/fields.js';
import { createId } from '../common/ids.js';
import { Environment } from '../config/environment.js';
import { UNUSED_DAYS } from '../config/limits.js';
import { ComparedClock } from '../database/compared-clock.js';
import { getViolatedConstraint } from '../database/database-failure.js';
import { findPage, type Page, type PageRequest } from '../http/page.js';
import { provideKeyStore, type KeyStore } from '../keys/key-store.js';
import {
  isLiveAt,
  KeyColumns,
  toKeyFilters,
  type IssuedCredential,
  type KeyFilter,
  type KeyTable,
} from '../keys/key-table.js';
import type { ResponseLocals } from '../problems/problem.filter.js';
import { ProblemException, problems } from '../problems/problems.js';
import { Freshness, wantsFreshVerdict } from '../revocation/propagation.js';

@Entity('app_credentials')
@Index('app_credentials_live_pair_key', ['caller', 'target'], { unique: true, where: 'revoked_at IS NULL' })
@Index('app_credentials_dead_at_idx', { synchronize: false })
export class AppCredential extends KeyColumns {
  @PrimaryColumn({ type: 'uuid', primaryKeyConstraintName: 'app_credentials_pkey' }) declare id: string;
  @Column({ type: 'text' }) caller!: string;
  @Column({ type: 'text' }) target!: string;

  /** Null: all that the target knows. */
  @Column({ type: 'text', array: true, nullable: true }) scopes!: readonly string[] | null;
  @Column({ name: 'scopes_changed_at', type: 'timestamptz', nullable: true }) scopesChangedAt!: Date | null;

  /** When each scope was last asked for, in ISO 8601. */
  @Column({ name: 'scope_uses', type: 'jsonb', default: {} }) scopeUses!: Readonly<Record<string, string>>;
}

interface AppIdentity {
  readonly caller: string;
  readonly target: string;
  readonly scopes: readonly string[] | null;
}

export const APP_KEYS = Symbol('APP_KEYS');
export type AppKeys = KeyStore<AppCredential, AppIdentity>;
export const APP_KEY_TABLE: KeyTable<AppCredential> = {
  name: 'app_credentials',
  door: 'app',
  auditPrefix: 'admin.app_credential',
  identityColumns: ['caller', 'target', 'scopes'],
  labels: [],
  scopeUsesColumn: 'scope_uses',
  targetColumn: 'target',
  keyPrefix: 'pa_app_',
  findMisuse: ({ target, scopes }, asked) => {
    if (asked.target !== undefined && asked.target !== target)
      return {
        code: 'other_target',
        detail: `It is valid at ${target} only. Each pair of services has its own credential.`,
      };
    if (asked.scope === undefined || !scopes || scopes.includes(asked.scope)) return undefined;
    return { code: 'missing_scope', detail: `It has these scopes only: ${scopes.join(', ')}. Its key is valid.` };
  },
  toLogFields: ({ id, caller, target }) => ({ app_id: id, calling_service: caller, called_service: target }),
  toChangeableFields: ({ scopes }) => ({ ...(scopes && { scopes }) }),
};

export class UnusedScopeResponse {
  @ApiProperty(ID) app_id!: string;
  @ApiProperty({ example: EXAMPLES.caller }) caller!: string;
  @ApiProperty({ example: EXAMPLES.target }) target!: string;
  @ApiProperty({ example: EXAMPLES.appScope }) scope!: string;
}

export const MAX_UNUSED_SCOPES = 100;
const UNUSED_SCOPES = `SELECT id AS app_id, caller, target, scope FROM app_credentials, unnest(scopes) AS scope
  WHERE ${isLiveAt('$1::timestamptz')}
    AND GREATEST(created_at, scopes_changed_at, (scope_uses ->> scope)::timestamptz) < $1 - interval '${UNUSED_DAYS} days'
  ORDER BY caller, target, scope LIMIT ${MAX_UNUSED_SCOPES}`;

/** Undefined: any. */
type AppFilter = KeyFilter & Readonly<Record<'caller' | 'target', string | undefined>>;

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
    { caller, target, expiresAt, scopes }: Pick<AppCredential, 'caller' | 'target' | 'expiresAt' | 'scopes'>,
    actor: Actor,
  ): Promise<IssuedCredential<AppCredential>> {
    const { key, keyDigest } = this.keys.issueKey();
    // A wrong clock would revoke the pair's credential as expired.
    const now = this.clock.trustedNow();
    const row = { id: createId(), caller, target, expiresAt, scopes, keyDigest, createdAt: now, updatedAt: now };
    const credential = this.credentials.create({ ...row, scopeUses: {} });
    try {
      await this.credentials.manager.transaction(async (transaction) => {
        await this.revokeExpired(transaction, { caller, target }, now, actor);
        await transaction.insert(AppCredential, credential);
        const after = { caller, target, expires_at: expiresAt, ...APP_KEY_TABLE.toChangeableFields(credential) };
        const act = { event: 'admin.app_credential.minted', actor, time: now, subject: credential.id } as const;
        const logFields = APP_KEY_TABLE.toLogFields(credential);
        await this.audit.record(transaction, { ...act, details: { after }, logFields });
      });
    } catch (error) {
      if (getViolatedConstraint(error) === 'app_credentials_live_pair_key')
        throw new ProblemException(problems.appCredentialExists);
      throw error;
    }
    return { credential, key };
  }

  /** @param scopes null: all. The key stays. */
  async updateScopes(id: string, scopes: readonly string[] | null, actor: Actor): Promise<AppCredential> {
    return this.keys.updateCredential(id, { scopes, scopesChangedAt: this.clock.now() }, actor);
  }

  /** @returns the scopes of live credentials that were not asked for in {@link UNUSED_DAYS} days, nor changed since */
  async listUnusedScopes(): Promise<UnusedScopeResponse[]> {
    return this.credentials.query(UNUSED_SCOPES, [this.clock.now()]);
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

@Injectable()
class AppStrategy extends PassportStrategy(HeaderKeyStrategy, 'app') {
  constructor(
    doors: Doors,
    @Inject(APP_KEYS) private readonly keys: AppKeys,
    private readonly freshness: Freshness,
    private readonly environment: Environment,
  ) {
    super('X-Platform-App-Key');
    doors.install('app', this);
  }

  async validate(request: Request, key: string): Promise<AppPrincipal> {
    const sentId = request.headers['x-platform-app-id'];
    if (typeof sentId !== 'string') throw createRefusal('app', 'no_id');
    const appId = sentId.toLowerCase();
    const isFresh = wantsFreshVerdict(request);
    if (isFresh) await this.freshness.noteArrival(request);
    const { presentedTo = this.environment.serviceName, askedScope: scope } = (request.res?.locals ??
      {}) as ResponseLocals;
    const asked = { target: presentedTo ?? undefined, scope };
    const verdict = await this.keys.verifier.verifyKey(appId, key, asked, isFresh);
    if (!verdict.valid) {
      const isMissingScope = verdict.reason === 'misuse' && verdict.misuse === 'missing_scope';
      const ofMisuse = isMissingScope ? 'missing_scope' : 'other_target';
      const reason = verdict.reason === 'misuse' ? ofMisuse : verdict.reason;
      if (!verdict.identity) throw createRefusal('app', reason);
      this.keys.verifier.recordRefusal(appId, reason, toActor(request));
      const { caller, target } = verdict.identity;
      const refusal = createRefusal('app', reason, { app_id: appId, calling_service: caller, called_service: target });
      throw scope !== undefined && isMissingScope ? createMissingScopeProblem(scope, refusal) : refusal;
    }
    const { caller, target, scopes } = verdict.identity;
    this.keys.verifier.recordUse(appId, presentedTo, scope);
    return { door: 'app', appId, caller, target, scopes, rememberable: verdict.rememberable };
  }
}

/** The key is valid, so that this is not a 401: the caller would take it for a wrong key. */
function createMissingScopeProblem(scope: string, { occurrence }: ProblemException): ProblemException {
  return new ProblemException(problems.missingScope, { ...occurrence, members: { scopes: [scope] } });
}

/** For the OpenAPI document only: the guard reads the body (`readPresentedTarget`). */
export class ValidateAppRequest {
  @ServiceNameField(EXAMPLES.target, { optional: true }) target?: string;
}

export class ValidAppResponse {
  @ApiProperty({ enum: [true] }) valid!: true;
  @ApiProperty(ID) app_id!: string;
  @ApiProperty({ example: EXAMPLES.caller }) caller!: string;
  @ApiProperty({ example: EXAMPLES.target }) target!: string;
  @ApiPropertyOptional(APP_SCOPES) scopes?: readonly string[];
}

@ApiTags('internal')
@Controller('internal')
class ValidateAppController {
  constructor(private readonly freshness: Freshness) {}

  @Post('validate-app')
  @RequirePresentedApp()
  @ApiOperation({
    summary: 'Validate the key of a service',
    description:
      'Forward the headers that a service sent you, and name yourself as target, in the body or in X-Platform-Target: ' +
      'a key for another service is refused. The answer has `scopes` when the credential is restricted to some.',
  })
  @ApiBody({ type: ValidateAppRequest, required: false })
  @Answers(200, ValidAppResponse)
  validateApp(@Req() request: Request): ValidAppResponse {
    const { appId, caller, target, scopes, rememberable } = getPrincipal(request, 'app');
    this.freshness.setHeaders(request, rememberable);
    return { valid: true, app_id: appId, caller, target, ...(scopes && { scopes }) };
  }
}

@Module({
  imports: [TypeOrmModule.forFeature([AppCredential])],
  controllers: [ValidateAppController],
  providers: [provideKeyStore(APP_KEYS, AppCredential, APP_KEY_TABLE), AppCredentialsService, AppStrategy],
  exports: [AppCredentialsService],
})
export class AppCredentialsModule {}
