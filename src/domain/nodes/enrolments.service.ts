/**
 * Enrolments: an operator issues a code for a node, and the device exchanges it for its credential, so that no person
 * carries a key. Invariants: a code works once and until it expires, by the clock of PostgreSQL; of a code, the database has
 * an HMAC only. The repeat of a call whose response was lost, with its Idempotency-Key, gets a new key of the same node.
 */
import { Injectable } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import type { Repository } from 'typeorm';
import type { Actor } from '../../foundation/access/actor.js';
import type { AuditEvent } from '../audit/audit-events.js';
import { AuditLog } from '../audit/audit-log.js';
import { addSeconds } from '../../foundation/common/clock.js';
import { createId, isId } from '../../foundation/common/ids.js';
import type { RefusalReason } from '../../foundation/common/security-events.js';
import { Environment } from '../../foundation/config/environment.js';
import { computeMac, deriveKey, generateSecretBytes, isSameDigest } from '../../foundation/crypto/secret.js';
import { Database, DatabaseClock } from '../../foundation/database/database.js';
import { findPage, toFilter, type Page, type PageRequest } from '../../foundation/http/page.js';
import type { IssuedCredential } from '../keys/key-record.js';
import { ProblemException, problems } from '../../foundation/problems/problems.js';
import { CodeThrottle } from '../../foundation/throttling/guess-throttles.js';
import { NodeEnrolment } from './node-enrolment.entity.js';
import type { Node } from './node.entity.js';
import { NodesService, type NewNode } from './nodes.service.js';

const RETRY_SECONDS = 600;

export type EnrolmentRequest = Pick<NewNode, 'householdId' | 'room' | 'name' | 'targets'> & {
  readonly expiresInMinutes: number;
};

export const ENROLMENT_STATES = ['open', 'used', 'cancelled', 'expired'] as const;

export interface EnrolmentView {
  readonly enrolment: NodeEnrolment;
  readonly state: (typeof ENROLMENT_STATES)[number];
}

export interface IssuedEnrolment extends EnrolmentView {
  /** The only occurrence of the code in plain text. */
  readonly code: string;
}

type MacKey = ReturnType<typeof deriveKey>;
type RefusedEnrolment = RefusalReason<'node.enrolment.refused'>;

const CONDITION_OF_OPEN = 'used_at IS NULL AND cancelled_at IS NULL AND expires_at >';
const FIND = {
  name: 'node_enrolments_find',
  text: `SELECT id, household_id AS "householdId", room, name, targets, expires_at AS "expiresAt",
      cancelled_at AS "cancelledAt", used_at AS "usedAt", node_id AS "nodeId", retry_mac AS "retryMac"
    FROM node_enrolments WHERE code_mac = ANY ($1::bytea[])`,
};
const USE = `UPDATE node_enrolments SET used_at = $2, node_id = $3, retry_mac = $4
  WHERE id = $1 AND ${CONDITION_OF_OPEN} $2 RETURNING id`;
const CANCEL = `UPDATE node_enrolments SET cancelled_at = $2 WHERE id = $1 AND ${CONDITION_OF_OPEN} $2 RETURNING id`;

@Injectable()
export class EnrolmentsService {
  /** Codes are issued under the first one, of SECRET_KEY, and accepted under that of SECRET_KEY_PREVIOUS too. */
  private readonly macKeys: readonly [MacKey, ...MacKey[]];

  constructor(
    private readonly environment: Environment,
    @InjectRepository(NodeEnrolment) private readonly enrolments: Repository<NodeEnrolment>,
    private readonly database: Database,
    private readonly clock: DatabaseClock,
    private readonly throttle: CodeThrottle,
    private readonly audit: AuditLog,
    private readonly nodes: NodesService,
  ) {
    const { secretKey, secretKeyPrevious } = environment;
    const derive = (secret: string) => deriveKey(secret, 'platform-auth enrolment codes v1');
    this.macKeys = [derive(secretKey), ...(secretKeyPrevious === undefined ? [] : [derive(secretKeyPrevious)])];
  }

  async issueEnrolment({ expiresInMinutes, ...node }: EnrolmentRequest, actor: Actor): Promise<IssuedEnrolment> {
    const code = generateEnrolmentCode();
    const now = await this.clock.now();
    const { targets = this.environment.nodeTargets ?? null } = node;
    const enrolment = this.enrolments.create({
      ...node,
      targets,
      id: createId(),
      codeMac: computeMac(this.macKeys[0], canonicalizeCode(code)),
      createdAt: now,
      expiresAt: addSeconds(now, expiresInMinutes * 60),
    });
    await this.enrolments.manager.transaction(async (transaction) => {
      await transaction.insert(NodeEnrolment, enrolment);
      await this.audit.record(transaction, toAuditEvent('admin.enrolment.issued', enrolment, actor));
    });
    return { enrolment, state: 'open', code };
  }

  async listEnrolments(page: PageRequest, isOpen: boolean): Promise<Page<EnrolmentView>> {
    const now = await this.clock.now();
    const filters = isOpen ? [toFilter(`${CONDITION_OF_OPEN} :now`, { now })] : [];
    const { items, nextCursor } = await findPage(this.enrolments, page, {}, filters);
    return { items: items.map((enrolment) => ({ enrolment, state: judgeEnrolment(enrolment, now) })), nextCursor };
  }

  /** @throws {ProblemException} not_found */
  async findEnrolment(id: string): Promise<EnrolmentView> {
    const enrolment = isId(id) ? await this.enrolments.findOneBy({ id }) : null;
    if (!enrolment) throw new ProblemException(problems.notFound);
    return { enrolment, state: judgeEnrolment(enrolment, await this.clock.now()) };
  }

  /** Idempotent. @throws {ProblemException} not_found; enrolment_used, because the node exists and has a key */
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

  /**
   * Registers the node for which the code was issued. Unknown, expired and cancelled codes cost the same statements.
   * @throws {ProblemException} not_found; enrolment_used; too_many_requests; of a repeat, as {@link KeyStore.rotateKey}
   */
  async enrolNode(
    typed: string,
    actor: Actor,
    idempotencyKey?: string,
    hasLostRace = false,
  ): Promise<IssuedCredential<Node>> {
    const macs = this.computeMacs(canonicalizeCode(typed));
    const retryMacs = idempotencyKey === undefined ? [] : this.computeMacs(`retry ${idempotencyKey}`);
    const { verdict, enrolment } = await this.throttle.countEnrolmentGuess(actor.address, async () => {
      const found = await this.database.row<NodeEnrolment>(FIND, [macs]);
      const now = await this.clock.now();
      const verdict = found ? judgePresentation(found, retryMacs, now) : 'unknown';
      return { valid: verdict === 'open' || verdict === 'repeated', verdict, enrolment: found };
    });
    if (!enrolment) throw refuseEnrolment('unknown');
    switch (verdict) {
      case 'open':
        // When another call has used the code, or an operator has cancelled it meanwhile, the row is judged again.
        return (
          (await this.useCode(enrolment, actor, retryMacs[0])) ?? this.enrolNode(typed, actor, idempotencyKey, true)
        );
      case 'repeated':
        // The call that won is being answered: its key must not end before the device has it.
        if (hasLostRace) throw new ProblemException(problems.unavailable, { isLogged: false });
        await this.throttle.countEnrolmentRepeat(enrolment.id, actor.address);
        // The response that held the former key was lost, so that key ends at once.
        return this.nodes.keys.rotateKey(enrolment.nodeId ?? '', { overlapHours: 0 }, actor);
      case 'reused':
        return this.refuseReuse(enrolment, actor);
      default:
        throw refuseEnrolment(verdict);
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
      const values = [enrolment.id, await this.clock.now(transaction), issued.credential.id, retryMac ?? null];
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

  private computeMacs(text: string): Buffer[] {
    return this.macKeys.map((key) => computeMac(key, text));
  }
}

function judgeEnrolment({ usedAt, cancelledAt, expiresAt }: NodeEnrolment, now: Date): EnrolmentView['state'] {
  if (usedAt) return 'used';
  if (cancelledAt) return 'cancelled';
  return expiresAt <= now ? 'expired' : 'open';
}

/** @param retryMacs of the presented Idempotency-Key, if any, under each key */
function judgePresentation(
  enrolment: NodeEnrolment,
  retryMacs: readonly Buffer[],
  now: Date,
): 'open' | 'repeated' | 'reused' | RefusedEnrolment {
  const state = judgeEnrolment(enrolment, now);
  if (state !== 'used') return state;
  const { retryMac, usedAt } = enrolment;
  const isRepeat = retryMac !== null && retryMacs.some((mac) => isSameDigest(mac, retryMac));
  return isRepeat && usedAt && now < addSeconds(usedAt, RETRY_SECONDS) ? 'repeated' : 'reused';
}

function refuseEnrolment(reason: RefusedEnrolment): ProblemException {
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

// The codes, which people read aloud and type: nine random characters (45 bits) and the check symbol of Crockford's base 32
// (value modulo 37), in two groups. Values whose symbol is not a letter or a digit are skipped.

const ALPHABET = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
const RANDOM_CHARACTERS = 9;
const GROUP_LENGTH = 5;
const RANDOM_BYTES = 6;
const CHECK_MODULUS = 37;

/** @returns a code in two groups, as in `7KQ2M-XV9TB` */
export function generateEnrolmentCode(): string {
  for (;;) {
    const value = generateSecretBytes(RANDOM_BYTES).readUIntBE(0, RANDOM_BYTES) % ALPHABET.length ** RANDOM_CHARACTERS;
    const check = ALPHABET[value % CHECK_MODULUS];
    if (check === undefined) continue;
    const code = encode(value) + check;
    return `${code.slice(0, GROUP_LENGTH)}-${code.slice(GROUP_LENGTH)}`;
  }
}

/** @returns the code as it is compared: without hyphens and blanks, in capitals, and with digits for O, I and L */
function canonicalizeCode(typed: string): string {
  return typed.toUpperCase().replace(/[\s-]/g, '').replaceAll('O', '0').replace(/[IL]/g, '1');
}

function encode(value: number): string {
  return Array.from(
    { length: RANDOM_CHARACTERS },
    (_, index) => ALPHABET[Math.floor(value / ALPHABET.length ** (RANDOM_CHARACTERS - 1 - index)) % ALPHABET.length],
  ).join('');
}
