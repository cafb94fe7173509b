import { isDeepStrictEqual } from 'node:util';
import { Inject, Injectable } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import { MoreThan, type EntityManager, type Repository } from 'typeorm';
import type { Actor } from '../audit/actor.js';
import { AuditLog } from '../audit/audit-log.js';
import { Clock } from '../common/clock.js';
import { isId, newId } from '../common/ids.js';
import { pageOf, type Page, type PageRequest } from '../common/page.js';
import { ProblemException } from '../common/problem.exception.js';
import { problems } from '../common/problems.js';
import { explain, explainUnknown, type Explanation } from '../credentials/explanation.js';
import { KeyStore } from '../credentials/key-store.js';
import { Propagation } from '../credentials/propagation.js';
import { NodeDevice } from './node-device.entity.js';

export interface NodeIdentity {
  readonly household_id: string;
}

/** Injection token of the nodes' keys. */
export const NODE_KEYS = Symbol('NODE_KEYS');
export type NodeKeys = KeyStore<NodeDevice, NodeIdentity>;

export type NodeRegistration = Pick<NodeDevice, 'householdId' | 'room' | 'name' | 'expiresAt'>;
export type NodeChange = Partial<Pick<NodeDevice, 'room' | 'name' | 'expiresAt'>>;

/** The register of nodes. What happens to their keys is in {@link KeyStore}. */
@Injectable()
export class NodesService {
  constructor(
    @InjectRepository(NodeDevice) private readonly nodes: Repository<NodeDevice>,
    @Inject(NODE_KEYS) readonly keys: NodeKeys,
    private readonly propagation: Propagation,
    private readonly audit: AuditLog,
    private readonly clock: Clock,
  ) {}

  async register(registration: NodeRegistration, actor: Actor): Promise<{ node: NodeDevice; key: string }> {
    const { key, columns } = this.keys.issue();
    const now = this.clock.now();
    const node = this.nodes.create({ id: newId(), ...registration, ...columns, createdAt: now, updatedAt: now });
    await this.nodes.manager.transaction(async (transaction) => {
      await transaction.insert(NodeDevice, node);
      const details = { after: { household_id: node.householdId, ...changeable(node) } };
      const logFields = { node_id: node.id, household_id: node.householdId };
      const event = { event: 'admin.node.registered', actor, time: now, subject: node.id, details, logFields } as const;
      await this.audit.record(transaction, event);
    });
    return { node, key };
  }

  /** @throws {ProblemException} not_found, also for an id that is no UUID */
  async find(id: string): Promise<NodeDevice> {
    const node = isId(id) ? await this.nodes.findOneBy({ id }) : null;
    if (!node) throw new ProblemException(problems.notFound);
    return node;
  }

  /** Why its keys would be refused now; an unknown id is answered too. */
  async explain(id: string): Promise<Explanation> {
    await this.keys.flushLastUsed();
    const node = isId(id) ? await this.nodes.findOneBy({ id }) : null;
    return node ? explain(node, this.clock.now()) : explainUnknown();
  }

  async list(page: PageRequest, householdId?: string): Promise<Page<NodeDevice>> {
    const where = {
      ...(householdId !== undefined && { householdId }),
      ...(page.after !== undefined && { id: MoreThan(page.after) }),
    };
    return pageOf(await this.nodes.find({ where, order: { id: 'ASC' }, take: page.limit + 1 }), page);
  }

  /**
   * What changes nothing is not recorded.
   * @throws {ProblemException} not_found; credential_revoked
   */
  async update(id: string, change: NodeChange, actor: Actor): Promise<NodeDevice> {
    const act = (): Promise<NodeDevice> =>
      this.nodes.manager.transaction(async (transaction) => {
        const before = await lockNode(transaction, id);
        if (before.revokedAt) throw new ProblemException(problems.credentialRevoked);
        const after = { ...before, ...change, updatedAt: this.clock.now() };
        const details = { before: changeable(before), after: changeable(after) };
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
    // Also when it changed nothing: this may be the repetition of a call whose answer was lost.
    return change.expiresAt === undefined ? this.propagation.afterRefusal(act) : this.propagation.after(act);
  }
}

async function lockNode(transaction: EntityManager, id: string): Promise<NodeDevice> {
  const lock = { mode: 'pessimistic_write' } as const;
  const node = isId(id) ? await transaction.findOne(NodeDevice, { where: { id }, lock }) : null;
  if (!node) throw new ProblemException(problems.notFound);
  return node;
}

function changeable({ room, name, expiresAt }: NodeDevice): Record<string, unknown> {
  return { room, name, expires_at: expiresAt };
}
