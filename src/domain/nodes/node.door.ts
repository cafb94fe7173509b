import { Inject, Injectable } from '@nestjs/common';
import type { Actor } from '../../foundation/access/actor.js';
import type { NodePrincipal } from '../../foundation/access/principals.js';
import { createRefusal } from '../../foundation/access/doors.js';
import { NODE_KEYS, type NodeKeys } from './nodes.service.js';

interface PresentedNode {
  /** The text `node_id:api_key`. */
  readonly credential: string;
  /** The service at which the key is presented, if it named itself. */
  readonly target: string | undefined;
  /** The node acts on its own key: its targets do not restrict that. */
  readonly isOwnKey?: boolean | undefined;
  /** Name of the app that forwards the key, authenticated by a credential of its own. */
  readonly forwardedBy: string | null;
  /** Whether to skip the cache. */
  readonly isFresh: boolean;
  /** Called only when the key is refused. */
  readonly getActor: () => Actor;
}

/** The node door. The id ends at the first colon of the credential. */
@Injectable()
export class NodeDoor {
  constructor(@Inject(NODE_KEYS) private readonly keys: NodeKeys) {}

  /** @throws {ProblemException} invalid_node_credentials */
  async verifyNode(presented: PresentedNode): Promise<NodePrincipal> {
    const { credential, target, isOwnKey, forwardedBy, isFresh, getActor } = presented;
    const { verifier } = this.keys;
    const colon = credential.indexOf(':');
    if (colon < 1 || colon === credential.length - 1) throw createRefusal('node', 'malformed');
    const nodeId = credential.slice(0, colon).toLowerCase();
    const verdict = await verifier.verifyKey(nodeId, credential.slice(colon + 1), { target, isOwnKey }, isFresh);
    if (!verdict.valid) {
      const isViolation = verdict.reason === 'violation';
      const reason = isViolation ? 'target' : verdict.reason;
      if (!verdict.identity) throw createRefusal('node', reason);
      verifier.recordRefusal(nodeId, reason, getActor());
      const fields = { node_id: nodeId, household_id: verdict.identity.household_id };
      throw createRefusal('node', reason, { ...fields, called_service: isViolation ? target : undefined });
    }
    const { identity, isPrevious, rememberable } = verdict;
    const { household_id: householdId, targets } = identity;
    verifier.recordUse(nodeId, forwardedBy ?? target ?? null, isPrevious);
    return { door: 'node', nodeId, householdId, targets, forwardedBy, rememberable };
  }
}
