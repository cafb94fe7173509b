/**
 * Nodes, the edge devices of households; keys/key-store.ts has their keys. The first node or code that names an unknown
 * household makes it, by a trigger (domain/households has the rest). A revoked node stays as a row until it is purged.
 */
import { Inject, Injectable } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import type { EntityManager, Repository } from 'typeorm';
import type { Actor } from '../../foundation/access/actor.js';
import type { AuditEvent } from '../audit/audit-events.js';
import { addDays } from '../../foundation/common/clock.js';
import { KEY_KINDS } from '../../foundation/common/key-kinds.js';
import { Environment } from '../../foundation/config/environment.js';
import { DEFAULT_OVERLAP_HOURS } from '../../foundation/config/limits.js';
import { computeMac, deriveKey, isSameDigest } from '../../foundation/crypto/secret.js';
import { ComparedClock } from '../../foundation/database/compared-clock.js';
import { DatabaseClock } from '../../foundation/database/database.js';
import type { KeyStore } from '../keys/key-store.js';
import { isLiveAt, toKeyFilters, type IssuedCredential, type KeyFilter, type KeyKind } from '../keys/key-record.js';
import { ProblemException, problems } from '../../foundation/problems/problems.js';
import { Throttle } from '../../foundation/throttling/throttle.js';
import { Node } from './node.entity.js';
import { findPage, toFilter, toPattern, type Page, type PageRequest } from '../../foundation/database/page.js';

interface NodeIdentity {
  readonly household_id: string;
  readonly targets: readonly string[] | null;
}

export const NODE_KEYS = Symbol('NODE_KEYS');
export type NodeKeys = KeyStore<Node, NodeIdentity>;
export const NODE_KEY_KIND: KeyKind<Node> = {
  name: 'node',
  ...KEY_KINDS.node,
  identityColumns: ['household_id', 'targets'],
  labels: ['room', 'name'],
  findViolation: ({ targets }, { target, isOwnKey }) => {
    if (!targets || isOwnKey || (target !== undefined && targets.includes(target))) return undefined;
    const unnamed = target === undefined ? ', and the service that asks has to name itself' : '';
    return { code: 'target', detail: `It is valid at ${targets.join(', ')} only${unnamed}.` };
  },
  toLogFields: ({ id }) => ({ node_id: id }),
  toChangeableFields: ({ room, name, expiresAt, targets }) => ({
    room,
    name,
    expires_at: expiresAt,
    ...(targets && { targets }),
  }),
  toFixedFields: ({ householdId }) => ({ household_id: householdId }),
};

/** Without `targets`, the node gets those of NODE_TARGETS. */
export type NewNode = Pick<Node, 'householdId' | 'room' | 'name' | 'expiresAt'> & Partial<Pick<Node, 'targets'>>;
export type NodeChange = Partial<Pick<Node, 'room' | 'name' | 'expiresAt' | 'targets'>>;

interface NodeFilter extends KeyFilter {
  readonly householdId: string | undefined;
  /** A part of `room/name`, case-insensitive. */
  readonly search: string | undefined;
}

const IDEMPOTENCY_KEY_DAYS = 1;

/**
 * Inserts an Idempotency-Key, or replaces an expired one. A concurrent call with the same key waits here until the
 * first call commits, and then gets no row.
 */
const CLAIM_IDEMPOTENCY_KEY = `INSERT INTO idempotency_keys AS held (key_mac, body_mac, node_id, created_at)
  VALUES ($1, $2, $3, $4)
  ON CONFLICT (key_mac) DO UPDATE
    SET body_mac = excluded.body_mac, node_id = excluded.node_id, created_at = excluded.created_at
    WHERE held.created_at <= $5
  RETURNING node_id`;
const READ_IDEMPOTENCY_KEY = 'SELECT body_mac, node_id FROM idempotency_keys WHERE key_mac = $1';
const REASSIGN_CLAIMS = 'UPDATE idempotency_keys SET node_id = $2 WHERE node_id = $1';

interface HeldIdempotencyKey {
  readonly body_mac: Buffer;
  readonly node_id: string;
}

/** The number of live nodes with the same targets. */
export interface RestrictedNodes {
  readonly targets: string[];
  readonly live: number;
  /** An example of these nodes. */
  readonly node_id: string;
}

export const MAX_SETS_OF_TARGETS = 100;
const RESTRICTED_NODES = `SELECT sorted AS targets, count(*)::integer AS live, min(id::text) AS node_id
  FROM nodes, LATERAL (SELECT ARRAY(SELECT unnest(targets) ORDER BY 1) AS sorted) AS canonical
  WHERE targets IS NOT NULL AND ${isLiveAt('$1::timestamptz')}
  GROUP BY sorted ORDER BY live DESC, sorted LIMIT ${MAX_SETS_OF_TARGETS}`;

@Injectable()
export class NodesService {
  /**
   * Keys for the HMACs of Idempotency-Keys, in the same order at every step of a rotation of MASTER_KEY, so that
   * concurrent calls at two replicas cannot deadlock.
   */
  private readonly macKeys;

  constructor(
    @InjectRepository(Node) private readonly nodes: Repository<Node>,
    @Inject(NODE_KEYS) readonly keys: NodeKeys,
    private readonly environment: Environment,
    private readonly clock: ComparedClock,
    private readonly databaseClock: DatabaseClock,
    private readonly throttle: Throttle,
  ) {
    const { masterKey, masterKeyPrevious } = environment;
    const secrets = [masterKey, masterKeyPrevious].filter((secret) => secret !== undefined);
    this.macKeys = secrets.toSorted().map((secret) => deriveKey(secret, 'idempotency keys'));
  }

  /**
   * @param idempotencyKey makes a repeat of the call return the same node. No key is stored in plain text, so the
   * repeat rotates the key, with the default overlap, so that a key in use stays valid
   * @throws {ProblemException} idempotency_key_reused; those of {@link KeyStore.rotateKey}
   */
  async issueNode(asked: NewNode, actor: Actor, idempotencyKey?: string): Promise<IssuedCredential<Node>> {
    const issued = this.createNode(asked);
    const { credential: node } = issued;
    const earlierId = await this.nodes.manager.transaction(async (transaction) => {
      const held = idempotencyKey && (await this.claimIdempotencyKey(transaction, idempotencyKey, asked, node.id));
      if (held) return held;
      await this.insertNode(transaction, node, actor);
      return undefined;
    });
    return earlierId === undefined
      ? issued
      : this.keys.rotateKey(earlierId, { overlapHours: DEFAULT_OVERLAP_HOURS }, actor);
  }

  /**
   * Rotates a key for its own device. The old key stays valid as after a rotation by an operator.
   * @throws {ProblemException} too_many_requests; those of {@link KeyStore.rotateKey}
   */
  async rotateOwnKey(nodeId: string, actor: Actor): Promise<IssuedCredential<Node>> {
    await this.throttle.countAction('node-rotation', nodeId);
    return this.keys.rotateKey(nodeId, { overlapHours: DEFAULT_OVERLAP_HOURS, event: 'node.rotated' }, actor);
  }

  /** @returns the id of the node that this key has already issued, if any */
  private async claimIdempotencyKey(
    transaction: EntityManager,
    key: string,
    asked: object,
    nodeId: string,
  ): Promise<string | undefined> {
    const now = await this.databaseClock.now(transaction);
    let earlierId: string | undefined;
    for (const macKey of this.macKeys) {
      const [keyMac, bodyMac] = [computeMac(macKey, key), computeMac(macKey, JSON.stringify(asked))];
      const values = [keyMac, bodyMac, nodeId, now, addDays(now, -IDEMPOTENCY_KEY_DAYS)];
      const claimed = await transaction.query<unknown[]>(CLAIM_IDEMPOTENCY_KEY, values);
      if (claimed.length > 0) continue;
      const [held] = await transaction.query<HeldIdempotencyKey[]>(READ_IDEMPOTENCY_KEY, [keyMac]);
      if (!held) throw new Error('The row that is locked here has disappeared');
      if (!isSameDigest(held.body_mac, bodyMac)) throw new ProblemException(problems.idempotencyKeyReused);
      earlierId ??= held.node_id;
    }
    // A replica with one key alone may have claimed it: then its node gets the claims under the other key too.
    if (earlierId !== undefined) await transaction.query(REASSIGN_CLAIMS, [nodeId, earlierId]);
    return earlierId;
  }

  /** Creates a node in memory; {@link insertNode} stores it. */
  createNode(asked: NewNode): IssuedCredential<Node> {
    const { targets = this.environment.nodeTargets ?? null } = asked;
    return this.keys.createCredential({ ...asked, targets });
  }

  async insertNode(
    transaction: EntityManager,
    node: Node,
    actor: Actor,
    event: Partial<Pick<AuditEvent, 'event' | 'details'>> = {},
  ): Promise<void> {
    const logFields = { node_id: node.id, household_id: node.householdId };
    await this.keys.insertCredential(transaction, node, actor, { ...event, logFields });
  }

  /** @returns the sets of targets that live nodes have, the most frequent ones first */
  async countRestrictedNodes(): Promise<RestrictedNodes[]> {
    return this.nodes.query<RestrictedNodes[]>(RESTRICTED_NODES, [this.clock.now()]);
  }

  async listNodes(page: PageRequest, { householdId, search, ...keys }: NodeFilter): Promise<Page<Node>> {
    const filters = toKeyFilters(keys, this.clock.now());
    if (search !== undefined)
      filters.push(toFilter(`lower(room || '/' || name) LIKE lower(:search)`, { search: toPattern(search) }));
    return findPage(this.nodes, page, { householdId }, filters);
  }
}
