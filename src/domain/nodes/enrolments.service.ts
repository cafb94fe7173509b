/**
 * Enrolments: an operator issues a one-time code for a node (keys/one-time-codes.ts), and the device exchanges it for
 * its credential, so that no person handles a key. When the response is lost, the device repeats the call with its
 * Idempotency-Key and gets a new key of the same node.
 */
import { Injectable } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import type { EntityManager, Repository } from 'typeorm';
import type { Actor } from '../../foundation/access/actor.js';
import type { AuditEvent } from '../audit/audit-events.js';
import { AuditLog } from '../audit/audit-log.js';
import { addSeconds } from '../../foundation/common/clock.js';
import { createId, isId } from '../../foundation/common/ids.js';
import type { RefusalReason } from '../../foundation/common/security-events.js';
import { Environment } from '../../foundation/config/environment.js';
import { isSameDigest } from '../../foundation/crypto/secret.js';
import { Database, DatabaseClock } from '../../foundation/database/database.js';
import type { IssuedCredential } from '../keys/key-record.js';
import {
  canonicalizeCode,
  CodeMacs,
  determineCodeState,
  generateCode,
  isOpenAt,
  type CodeFilter,
  type CodeState,
} from '../keys/one-time-codes.js';
import { ProblemException, problems } from '../../foundation/problems/problems.js';
import { CodeThrottle } from '../../foundation/throttling/guess-throttles.js';
import { NodeEnrolment } from './node-enrolment.entity.js';
import type { Node } from './node.entity.js';
import { NodesService, type NewNode } from './nodes.service.js';
import { findPage, toFilter, type Page, type PageRequest } from '../../foundation/database/page.js';

const RETRY_SECONDS = 600;

export type EnrolmentRequest = Pick<NewNode, 'householdId' | 'room' | 'name' | 'targets'> & {
  readonly expiresInMinutes: number;
  /** The admin of the household who issues it; undefined: an operator. */
  readonly issuedBy?: string;
};

/** Codes of a household, of an admin who issued them, or of both. */
export type CodeSelection =
  | { readonly householdId: string; readonly issuedBy?: string }
  | { readonly householdId?: string; readonly issuedBy: string };

export interface EnrolmentView {
  readonly enrolment: NodeEnrolment;
  readonly state: CodeState;
}

export interface IssuedEnrolment extends EnrolmentView {
  /** The only occurrence of the code in plain text. */
  readonly code: string;
}

type RefusedEnrolment = RefusalReason<'node.enrolment.refused'>;

/** The SQL condition that the admin who issued a code is still one, for codes that no replica has cancelled. */
export const buildIsIssuerAdmin = (table: 'node_enrolments' | 'household_invitations'): string => `EXISTS (
    SELECT FROM household_members AS issuers JOIN users ON users.id = issuers.user_id
    WHERE issuers.household_id = ${table}.household_id AND issuers.user_id = ${table}.issued_by
      AND issuers.role = 'admin' AND users.is_active)`;
const FIND = {
  name: 'node_enrolments_find',
  text: `SELECT id, household_id AS "householdId", room, name, targets, expires_at AS "expiresAt",
      CASE WHEN issued_by IS NULL OR ${buildIsIssuerAdmin('node_enrolments')} THEN cancelled_at
           ELSE COALESCE(cancelled_at, created_at) END AS "cancelledAt",
      used_at AS "usedAt", node_id AS "nodeId", retry_mac AS "retryMac"
    FROM node_enrolments WHERE code_mac = ANY ($1::bytea[])`,
};
/**
 * Locks the household first, as its deletion does. The condition on `held` is always true: it makes PostgreSQL take the
 * lock.
 */
const USE = `WITH held AS MATERIALIZED (SELECT id FROM households WHERE id = $5 FOR KEY SHARE)
  UPDATE node_enrolments SET used_at = $2, node_id = $3, retry_mac = $4
  WHERE (SELECT count(*) FROM held) >= 0 AND id = $1 AND ${isOpenAt('$2')}
    AND (issued_by IS NULL OR ${buildIsIssuerAdmin('node_enrolments')})
  RETURNING id`;
const CANCEL_SEVERAL = `UPDATE node_enrolments SET cancelled_at = $1
  WHERE ($2::uuid IS NULL OR household_id = $2) AND ($3::uuid IS NULL OR issued_by = $3) AND ${isOpenAt('$1')}
  RETURNING id, household_id AS "householdId", room, name, targets, expires_at AS "expiresAt"`;
const CANCEL = `UPDATE node_enrolments SET cancelled_at = $2 WHERE id = $1 AND ${isOpenAt('$2')} RETURNING id`;

@Injectable()
export class EnrolmentsService {
  private readonly macs: CodeMacs;

  constructor(
    private readonly environment: Environment,
    @InjectRepository(NodeEnrolment) private readonly enrolments: Repository<NodeEnrolment>,
    private readonly database: Database,
    private readonly clock: DatabaseClock,
    private readonly throttle: CodeThrottle,
    private readonly audit: AuditLog,
    private readonly nodes: NodesService,
  ) {
    this.macs = new CodeMacs(environment, 'platform-auth enrolment codes v1');
  }

  async issueEnrolment(asked: EnrolmentRequest, actor: Actor): Promise<IssuedEnrolment> {
    return this.enrolments.manager.transaction((transaction) => this.insertEnrolment(transaction, asked, actor));
  }

  async insertEnrolment(
    transaction: EntityManager,
    { expiresInMinutes, ...node }: EnrolmentRequest,
    actor: Actor,
  ): Promise<IssuedEnrolment> {
    const code = generateCode();
    const now = await this.clock.now(transaction);
    const { targets = this.environment.nodeTargets ?? null } = node;
    const enrolment = this.enrolments.create({
      ...node,
      targets,
      id: createId(),
      codeMac: this.macs.computeCurrentMac(canonicalizeCode(code)),
      createdAt: now,
      expiresAt: addSeconds(now, expiresInMinutes * 60),
    });
    await transaction.insert(NodeEnrolment, enrolment);
    await this.audit.record(transaction, toAuditEvent('admin.enrolment.issued', enrolment, actor));
    return { enrolment, state: 'open', code };
  }

  async listEnrolments(page: PageRequest, { householdId, isOpen }: CodeFilter): Promise<Page<EnrolmentView>> {
    const now = await this.clock.now();
    const filters = isOpen ? [toFilter(isOpenAt(':now'), { now })] : [];
    const { items, nextCursor } = await findPage(this.enrolments, page, { householdId }, filters);
    return { items: items.map((enrolment) => ({ enrolment, state: determineCodeState(enrolment, now) })), nextCursor };
  }

  /** @throws {ProblemException} not_found */
  async findEnrolment(id: string): Promise<EnrolmentView> {
    const enrolment = isId(id) ? await this.enrolments.findOneBy({ id }) : null;
    if (!enrolment) throw new ProblemException(problems.notFound);
    return { enrolment, state: determineCodeState(enrolment, await this.clock.now()) };
  }

  /** Idempotent. @throws {ProblemException} not_found; enrolment_used, because the node already has a key */
  async cancelEnrolment(id: string, actor: Actor): Promise<void> {
    const { enrolment } = await this.findEnrolment(id);
    const now = await this.clock.now();
    const isCancelled = await this.enrolments.manager.transaction(async (transaction) => {
      const [cancelled] = await transaction.query<[unknown[], number]>(CANCEL, [id, now]);
      if (cancelled.length === 0) return false;
      await this.audit.record(transaction, toAuditEvent('admin.enrolment.cancelled', enrolment, actor));
      return true;
    });
    if (isCancelled) return;
    if ((await this.findEnrolment(id)).state === 'used') throw new ProblemException(problems.enrolmentUsed);
  }

  /** Cancels the open enrolments of a household, or that a user issued, or that a user issued for a household. */
  async cancelEnrolments(
    transaction: EntityManager,
    { householdId, issuedBy }: CodeSelection,
    actor: Actor,
  ): Promise<void> {
    const values = [await this.clock.now(transaction), householdId ?? null, issuedBy ?? null];
    const [cancelled] = await transaction.query<[NodeEnrolment[], number]>(CANCEL_SEVERAL, values);
    for (const enrolment of cancelled)
      await this.audit.record(transaction, toAuditEvent('admin.enrolment.cancelled', enrolment, actor));
  }

  /**
   * Issues a key for the node of the code. Unknown, expired and cancelled codes cost the same statements.
   * @throws {ProblemException} not_found; enrolment_used; too_many_requests; for a repeat also those of {@link
   * KeyStore.rotateKey}
   */
  async enrolNode(
    typed: string,
    actor: Actor,
    idempotencyKey?: string,
    hasLostRace = false,
  ): Promise<IssuedCredential<Node>> {
    const macs = this.macs.computeMacs(canonicalizeCode(typed));
    const retryMacs = idempotencyKey === undefined ? [] : this.macs.computeMacs(`retry ${idempotencyKey}`);
    const { verdict, enrolment } = await this.throttle.countEnrolmentGuess(actor.address, async () => {
      const found = await this.database.row<NodeEnrolment>(FIND, [macs]);
      const now = await this.clock.now();
      const verdict = found ? judgePresentation(found, retryMacs, now) : 'unknown';
      return { valid: verdict === 'open' || verdict === 'repeated', verdict, enrolment: found };
    });
    if (!enrolment) throw createEnrolmentRefusal('unknown');
    switch (verdict) {
      case 'open':
        // Reads the row again when another call has used the code, or an operator has cancelled it, meanwhile.
        return (
          (await this.useCode(enrolment, actor, retryMacs[0])) ?? this.enrolNode(typed, actor, idempotencyKey, true)
        );
      case 'repeated':
        // The call that used the code is still being answered, and its key must not end before the device has it.
        if (hasLostRace) throw new ProblemException(problems.unavailable, { isLogged: false });
        await this.throttle.countEnrolmentRepeat(enrolment.id, actor.address);
        // Ends the former key at once, because the response with it was lost.
        return this.nodes.keys.rotateKey(enrolment.nodeId ?? '', { overlapHours: 0 }, actor);
      case 'reused':
        return this.refuseReuse(enrolment, actor);
      default:
        throw createEnrolmentRefusal(verdict);
    }
  }

  /** @returns undefined when the code is no longer open */
  private async useCode(
    enrolment: NodeEnrolment,
    actor: Actor,
    retryMac: Buffer | undefined,
  ): Promise<IssuedCredential<Node> | undefined> {
    const { householdId, room, name, targets } = enrolment;
    const issued = this.nodes.createNode({ householdId, room, name, targets, expiresAt: null });
    return this.enrolments.manager.transaction(async (transaction) => {
      const now = await this.clock.now(transaction);
      const values = [enrolment.id, now, issued.credential.id, retryMac ?? null, householdId];
      const [used] = await transaction.query<[unknown[], number]>(USE, values);
      if (used.length === 0) return undefined;
      const event = { event: 'node.enrolled', details: { enrolment_id: enrolment.id } } as const;
      await this.nodes.insertNode(transaction, issued.credential, actor, event);
      return issued;
    });
  }

  private async refuseReuse({ id, nodeId, householdId }: NodeEnrolment, actor: Actor): Promise<never> {
    const subject = nodeId ?? id;
    const event = { event: 'node.enrolment.reused', actor, subject, details: { enrolment_id: id } } as const;
    await this.enrolments.manager.transaction((transaction) => this.audit.record(transaction, event));
    const fields = { node_id: subject, household_id: householdId };
    const refusal = { event: 'node.enrolment.reused', reason: 'reused', fields } as const;
    throw new ProblemException(problems.enrolmentUsed, { refusal });
  }
}

/** @param retryMacs HMACs of the presented Idempotency-Key under each key; empty without one */
function judgePresentation(
  enrolment: NodeEnrolment,
  retryMacs: readonly Buffer[],
  now: Date,
): 'open' | 'repeated' | 'reused' | RefusedEnrolment {
  const state = determineCodeState(enrolment, now);
  if (state !== 'used') return state;
  const { retryMac, usedAt } = enrolment;
  const isRepeat = retryMac !== null && retryMacs.some((mac) => isSameDigest(mac, retryMac));
  return isRepeat && usedAt && now < addSeconds(usedAt, RETRY_SECONDS) ? 'repeated' : 'reused';
}

function createEnrolmentRefusal(reason: RefusedEnrolment): ProblemException {
  return new ProblemException(problems.notFound, { refusal: { event: 'node.enrolment.refused', reason } });
}

function toAuditEvent(
  event: 'admin.enrolment.issued' | 'admin.enrolment.cancelled',
  { id, householdId, room, name, targets, expiresAt }: NodeEnrolment,
  actor: Actor,
): AuditEvent {
  const details = { household_id: householdId, room, name, ...(targets && { targets }), expires_at: expiresAt };
  return { event, actor, subject: id, details, logFields: { household_id: householdId } };
}
