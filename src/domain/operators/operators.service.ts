/**
 * Operators: people and programs with a key of their own for the admin door, and scopes. keys/key-store.ts has their
 * keys, which are read at each call. Names are unique among operators that are not revoked, and do not change: the audit
 * log has the name in each row, and may keep it for longer than the purge keeps the operator. Invariant: an operator
 * manages only keys with no more rights than its own. Its own row is locked meanwhile, so that nothing it does to
 * operators commits after its revocation has answered.
 */
import { Inject, Injectable } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import { In, type EntityManager, type Repository } from 'typeorm';
import type { Actor } from '../../foundation/access/actor.js';
import type { OperatorIdentity } from '../../foundation/access/principals.js';
import { createRefusal } from '../../foundation/access/doors.js';
import { CountedRefusals, type CountedRefusal } from '../audit/counted-refusals.js';
import { isId } from '../../foundation/common/ids.js';
import { KEY_KINDS } from '../../foundation/common/key-kinds.js';
import type { OperatorScope } from '../../foundation/common/names.js';
import type { RefusalReason } from '../../foundation/common/security-events.js';
import { computeDigest } from '../../foundation/crypto/secret.js';
import { ComparedClock } from '../../foundation/database/compared-clock.js';
import { translateViolation } from '../../foundation/database/database-failure.js';
import { determineKeyStatus, isRefusal } from '../keys/key-lifecycle.js';
import { toKeyFilters, type IssuedCredential, type KeyFilter, type KeyKind } from '../keys/key-record.js';
import type { KeyStore } from '../keys/key-store.js';
import { ProblemException, problems } from '../../foundation/problems/problems.js';
import { Operator } from './operator.entity.js';
import { OperatorPasskeys } from './operator-passkeys.service.js';
import { findPage, type Page, type PageRequest } from '../../foundation/database/page.js';

interface OperatorRow {
  readonly id: string;
  readonly name: string;
  readonly scopes: readonly OperatorScope[];
}

export const OPERATOR_KEYS = Symbol('OPERATOR_KEYS');
export type OperatorKeys = KeyStore<Operator, OperatorRow>;
export const OPERATOR_KEY_KIND: KeyKind<Operator> = {
  name: 'operator',
  ...KEY_KINDS.operator,
  shared: { finishedEvent: 'admin.operator.rotation_finished' },
  firstUseDetails: `jsonb_build_object('operator', name)`,
  identityColumns: ['name', 'scopes'],
  labels: [],
  // The admin door checks the scopes, because they depend on the route.
  findViolation: () => undefined,
  toLogFields: ({ id }) => ({ operator_id: id }),
  toChangeableFields: ({ scopes, expiresAt }) => ({ scopes, expires_at: expiresAt }),
  toFixedFields: ({ name }) => ({ name }),
};

type OperatorVerdict =
  | { readonly valid: true; readonly operator: OperatorIdentity }
  | { readonly valid: false; readonly reason: 'unknown' }
  | { readonly valid: false; readonly reason: 'revoked' | 'expired'; readonly operator: OperatorIdentity };

type Rights = Pick<Operator, 'scopes' | 'expiresAt'>;
export type OperatorChange = Partial<Rights>;

export interface AdminCaller {
  readonly operator: OperatorIdentity | null;
  readonly actor: Actor;
}

interface OperatorTransaction {
  readonly transaction: EntityManager;
  /** The locked row of the caller; null for the root key. */
  readonly own: Operator | null;
}

@Injectable()
export class OperatorsService {
  constructor(
    @InjectRepository(Operator) private readonly operators: Repository<Operator>,
    @Inject(OPERATOR_KEYS) readonly keys: OperatorKeys,
    private readonly passkeys: OperatorPasskeys,
    private readonly refusals: CountedRefusals,
    private readonly clock: ComparedClock,
  ) {}

  async verifyOperatorKey(key: string): Promise<OperatorVerdict> {
    const keyDigest = computeDigest(key);
    const verdict = await this.keys.verifier.verifyDigest(keyDigest);
    if (!verdict.identity) return { valid: false, reason: 'unknown' };
    const { id, name, scopes } = verdict.identity;
    const operator = { id, name, scopes, keyDigest };
    if (verdict.valid) {
      this.keys.verifier.recordUse(id, null, verdict.isPrevious);
      return { valid: true, operator };
    }
    // The key matched a row, so any other refusal means a previous key whose overlap has ended.
    const hasEnded = verdict.reason === 'revoked' || verdict.reason === 'expired';
    return hasEnded ? { valid: false, reason: verdict.reason, operator } : { valid: false, reason: 'unknown' };
  }

  /** @throws {ProblemException} operator_exists; exceeds_own_rights */
  async issueOperator(
    operator: Pick<Operator, 'name' | 'scopes' | 'expiresAt'>,
    by: AdminCaller,
  ): Promise<IssuedCredential<Operator>> {
    const issue = this.runLocked(by, undefined, async ({ transaction, own }) => {
      refuseMoreRights(own, operator);
      const issued = this.keys.createCredential(operator);
      await this.keys.insertCredential(transaction, issued.credential, by.actor);
      return issued;
    });
    return translateViolation(issue, 'operators_live_name_key', () => new ProblemException(problems.operatorExists));
  }

  async listOperators(page: PageRequest, filter: KeyFilter, name?: string): Promise<Page<Operator>> {
    return findPage(this.operators, page, { name }, toKeyFilters(filter, this.clock.now()));
  }

  async updateOperator(id: string, change: OperatorChange, by: AdminCaller): Promise<Operator> {
    return this.changeOperator(by, id, async ({ transaction, own }, before) => {
      if (!before.revokedAt) refuseMoreRights(own, { ...before, ...change });
      return this.keys.updateCredential(before.id, change, by.actor, transaction);
    });
  }

  async rotateOperatorKey(id: string, overlapHours: number, by: AdminCaller): Promise<IssuedCredential<Operator>> {
    await this.keys.flushLastUsed();
    return this.changeOperator(by, id, ({ transaction }, before) =>
      this.keys.rotateKey(before.id, { overlapHours }, by.actor, transaction),
    );
  }

  async finishOperatorRotation(id: string, by: AdminCaller): Promise<void> {
    await this.changeOperator(by, id, ({ transaction }, before) =>
      this.keys.finishRotation(before.id, by.actor, transaction),
    );
  }

  async revokeOperator(id: string, by: AdminCaller): Promise<void> {
    await this.changeOperator(by, id, ({ transaction }, before) =>
      this.keys.revokeKey(before.id, by.actor, transaction),
    );
  }

  async removePasskey(id: string, passkeyId: string, by: AdminCaller): Promise<void> {
    await this.changeOperator(by, id, ({ transaction }, before) =>
      this.passkeys.removePasskey(before.id, passkeyId, by.actor, transaction),
    );
  }

  private async changeOperator<Result>(
    by: AdminCaller,
    id: string,
    act: (held: OperatorTransaction, found: Operator) => Promise<Result>,
  ): Promise<Result> {
    return this.runLocked(by, id, async (held, rows) => {
      const found = rows.get(id.toLowerCase());
      if (!found) throw new ProblemException(problems.notFound);
      refuseMoreRights(held.own, found);
      return act(held, found);
    });
  }

  /**
   * Runs an act while the rows of the caller and of the operator that it manages are locked.
   * @throws {ProblemException} exceeds_own_rights; missing_scope, or the door's 401, when the caller has meanwhile lost
   * the scope or was revoked
   */
  private async runLocked<Result>(
    { operator, actor }: AdminCaller,
    id: string | undefined,
    act: (held: OperatorTransaction, rows: ReadonlyMap<string, Operator>) => Promise<Result>,
  ): Promise<Result> {
    try {
      return await this.operators.manager.transaction(async (transaction) => {
        const rows = await lockOperators(transaction, [operator?.id, id]);
        const own = operator && requireLive(operator, rows.get(operator.id), this.clock);
        return act({ transaction, own }, rows);
      });
    } catch (error) {
      throw error instanceof RefusalToCountError ? await this.refusals.recordRefusal(error.refusal, actor) : error;
    }
  }
}

/** Locks in the order of the ids, so that two operators that manage each other cannot deadlock. */
async function lockOperators(
  transaction: EntityManager,
  ids: readonly (string | undefined)[],
): Promise<Map<string, Operator>> {
  const valid = ids.filter((id) => id !== undefined && isId(id));
  const lock = { mode: 'pessimistic_write' } as const;
  const rows = await transaction.find(Operator, { where: { id: In(valid) }, order: { id: 'ASC' }, lock });
  return new Map(rows.map((row) => [row.id, row]));
}

/** Verifies the caller's key again, because the door accepted it before the lock was taken. */
function requireLive(
  { name, keyDigest }: OperatorIdentity,
  caller: Operator | undefined,
  clock: ComparedClock,
): Operator {
  const status = determineKeyStatus(keyDigest, caller, clock);
  if (!caller || status === 'unknown') throw createRefusal('admin', 'revoked', { operator: name });
  if (isRefusal(status)) throw createRefusal('admin', status, { operator: name });
  if (!caller.scopes.includes('operators')) throw new RefusalToCountError(describeMissingScope(caller, 'operators'));
  return caller;
}

/** Carries a refusal out of the transaction, whose rollback would undo its count. */
class RefusalToCountError extends Error {
  override readonly name = 'RefusalToCountError';

  constructor(readonly refusal: CountedRefusal) {
    super(refusal.problem.code);
  }
}

/**
 * Prevents escalation. Without the limit of the expiry, an operator for one day could issue a key that never expires.
 * @param own null for the root key, which may grant any rights
 * @throws {RefusalToCountError} for a scope that the caller lacks, and for a later expiry than its own
 */
function refuseMoreRights(own: Operator | null, given: Rights): void {
  if (!own) return;
  const hasEveryScope = given.scopes.every((scope) => own.scopes.includes(scope));
  const endsInTime = own.expiresAt === null || (given.expiresAt !== null && given.expiresAt <= own.expiresAt);
  if (hasEveryScope && endsInTime) return;
  throw new RefusalToCountError({ problem: problems.exceedsOwnRights, ...describeRefusal(own, 'grant') });
}

/** @param accepted the scopes of which the operator needs one */
export function describeMissingScope(
  operator: Pick<OperatorIdentity, 'id' | 'name'>,
  scope: OperatorScope,
  accepted: readonly OperatorScope[] = [scope],
): CountedRefusal {
  return { problem: problems.missingScope, members: { scopes: accepted }, ...describeRefusal(operator, scope) };
}

/** `counted` makes one audit row for each operator and window. */
function describeRefusal(
  { id, name }: Pick<OperatorIdentity, 'id' | 'name'>,
  reason: RefusalReason<'admin.scope.refused'>,
) {
  const fields = { operator_id: id, operator: name };
  return { refusal: { event: 'admin.scope.refused', reason, fields }, counted: `operator ${id}`, subject: id } as const;
}
