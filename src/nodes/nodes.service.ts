/**
 * Nodes, the edge devices of households. Their keys live in keys/key-store.ts. A household is a UUID that other services give
 * meaning to. A revoked node stays as a row until it is purged.
 */
import { isDeepStrictEqual } from 'node:util';
import { Inject, Injectable } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import { Column, Entity, Index, PrimaryColumn, type EntityManager, type Repository } from 'typeorm';
import type { Actor } from '../access/actor.js';
import { AuditLog } from '../audit/audit-log.js';
import { isId, createId } from '../common/ids.js';
import { DEFAULT_OVERLAP_HOURS } from '../config/limits.js';
import { ComparedClock } from '../database/compared-clock.js';
import { findPage, type Page, type PageRequest } from '../http/page.js';
import { ProblemException, problems } from '../problems/problems.js';
import { explainKey, explainUnknownKey, nameActors, type Explanation } from '../keys/key-ends.js';
import { KeyColumns, type KeyTable } from '../keys/key-table.js';
import { KeyStore } from '../keys/key-store.js';
import { Propagation } from '../revocation/propagation.js';
import { RegistrationRetries } from './registration-retries.js';

/** An edge device in a household. */
@Entity('nodes')
@Index('nodes_household_id_idx', ['householdId', 'id'])
@Index('nodes_dead_at_idx', { synchronize: false })
export class NodeDevice extends KeyColumns {
  @PrimaryColumn({ type: 'uuid', primaryKeyConstraintName: 'nodes_pkey' })
  declare id: string;

  @Column({ name: 'household_id', type: 'uuid' })
  householdId!: string;

  @Column({ type: 'text' })
  room!: string;

  @Column({ type: 'text' })
  name!: string;
}

export interface NodeIdentity {
  readonly household_id: string;
}

/** Injection token of the key store of nodes. */
export const NODE_KEYS = Symbol('NODE_KEYS');
export type NodeKeys = KeyStore<NodeDevice, NodeIdentity>;
export const NODE_KEY_TABLE: KeyTable<NodeDevice> = {
  name: 'nodes',
  door: 'node',
  auditPrefix: 'admin.node',
  identityColumns: ['household_id'],
  keyPrefix: 'pa_node_',
  toLogFields: ({ id }) => ({ node_id: id }),
};

export interface IssuedNode {
  readonly node: NodeDevice;
  /** In plain text: the only time. */
  readonly key: string;
}

export type NodeRegistration = Pick<NodeDevice, 'householdId' | 'room' | 'name' | 'expiresAt'>;
export type NodeChange = Partial<Pick<NodeDevice, 'room' | 'name' | 'expiresAt'>>;

@Injectable()
export class NodesService {
  constructor(
    @InjectRepository(NodeDevice) private readonly nodes: Repository<NodeDevice>,
    @Inject(NODE_KEYS) private readonly keys: NodeKeys,
    private readonly propagation: Propagation,
    private readonly audit: AuditLog,
    private readonly clock: ComparedClock,
    private readonly retries: RegistrationRetries,
  ) {}

  /**
   * @param idempotencyKey a repeat of the call returns the same node. Its key is rotated, because no key is stored in plain
   * text, with the default overlap, so that a key in use stays valid
   * @throws {ProblemException} idempotency_key_reused; as {@link rotateNodeKey}
   */
  async registerNode(registration: NodeRegistration, actor: Actor, idempotencyKey?: string): Promise<IssuedNode> {
    const { key, columns } = this.keys.issueKey();
    const now = this.clock.now();
    const node = this.nodes.create({ id: createId(), ...registration, ...columns, createdAt: now, updatedAt: now });
    const earlierId = await this.nodes.manager.transaction(async (transaction) => {
      const held = idempotencyKey && (await this.retries.claimKey(transaction, idempotencyKey, registration, node.id));
      if (held) return held;
      await transaction.insert(NodeDevice, node);
      const details = { after: { household_id: node.householdId, ...toChangeableFields(node) } };
      const logFields = { node_id: node.id, household_id: node.householdId };
      const event = { event: 'admin.node.registered', actor, time: now, subject: node.id, details, logFields } as const;
      await this.audit.record(transaction, event);
      return undefined;
    });
    return earlierId === undefined ? { node, key } : this.rotateNodeKey(earlierId, DEFAULT_OVERLAP_HOURS, actor);
  }

  /** @throws {ProblemException} not_found, also for an id that is not a valid UUID */
  async findNode(id: string): Promise<NodeDevice> {
    const node = isId(id) ? await this.nodes.findOneBy({ id }) : null;
    if (!node) throw new ProblemException(problems.notFound);
    return node;
  }

  /** Explains why a key of the node would be refused now; also for an unknown id, instead of a 404. */
  async explainNode(id: string): Promise<Explanation> {
    await this.keys.flushLastUsed();
    const node = isId(id) ? await this.nodes.findOneBy({ id }) : null;
    return node ? nameActors(explainKey(node, this.clock.trustedNow()), node.id, this.audit) : explainUnknownKey();
  }

  async listNodes(page: PageRequest, householdId?: string): Promise<Page<NodeDevice>> {
    return findPage(this.nodes, page, { householdId });
  }

  /**
   * Idempotent: a change that changes nothing is not recorded.
   * @throws {ProblemException} not_found; credential_revoked
   */
  async updateNode(id: string, change: NodeChange, actor: Actor): Promise<NodeDevice> {
    const act = (): Promise<NodeDevice> =>
      this.nodes.manager.transaction(async (transaction) => {
        const before = await lockNode(transaction, id);
        if (before.revokedAt) throw new ProblemException(problems.credentialRevoked);
        const after = { ...before, ...change, updatedAt: this.clock.now() };
        const details = { before: toChangeableFields(before), after: toChangeableFields(after) };
        const logFields = { node_id: before.id };
        if (isDeepStrictEqual(details.before, details.after)) {
          this.audit.logOnly('admin.node.updated', actor, logFields);
          return before;
        }
        await transaction.update(NodeDevice, { id: before.id }, { ...change, updatedAt: after.updatedAt });
        const event = { actor, time: after.updatedAt, subject: before.id, details, logFields };
        await this.audit.record(transaction, { event: 'admin.node.updated', ...event });
        return after;
      });
    // Waits even when nothing changed: this may be the retry of a call whose response was lost.
    return change.expiresAt === undefined
      ? this.propagation.propagateAfterRefusal(act)
      : this.propagation.propagateAfter(act);
  }

  /**
   * {@link KeyStore.rotateKey}
   * @throws {ProblemException} not_found; credential_revoked; credential_expired
   */
  async rotateNodeKey(id: string, overlapHours: number, actor: Actor): Promise<IssuedNode> {
    const key = await this.keys.rotateKey(id, overlapHours, actor);
    return { node: await this.findNode(id), key };
  }

  /**
   * {@link KeyStore.revokeKey}
   * @throws {ProblemException} not_found
   */
  async revokeNode(id: string, actor: Actor): Promise<NodeDevice> {
    return this.keys.revokeKey(id, actor);
  }

  /** Records that a service says it accepted a key from its memory. */
  recordReportedUse(id: string, service: string, at: Date): void {
    this.keys.recordReportedUse(id, service, at);
  }

  /** Deletes nodes that were revoked or expired before a moment. */
  async purge(deadBefore: Date): Promise<number> {
    return this.keys.purge(deadBefore);
  }
}

async function lockNode(transaction: EntityManager, id: string): Promise<NodeDevice> {
  const lock = { mode: 'pessimistic_write' } as const;
  const node = isId(id) ? await transaction.findOne(NodeDevice, { where: { id }, lock }) : null;
  if (!node) throw new ProblemException(problems.notFound);
  return node;
}

function toChangeableFields({ room, name, expiresAt }: NodeDevice): Record<string, unknown> {
  return { room, name, expires_at: expiresAt };
}
