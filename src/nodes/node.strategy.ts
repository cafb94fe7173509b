import { Inject, Injectable } from '@nestjs/common';
import { PassportStrategy } from '@nestjs/passport';
import type { Request } from 'express';
import { Doors, createRefusal, HeaderKeyStrategy } from '../access/doors.js';
import { Freshness, wantsFreshVerdict } from '../revocation/freshness.js';
import type { NodePrincipal, Principal } from '../access/principals.js';
import { NODE_KEYS, type NodeKeys } from './nodes.service.js';

/** The node door: `X-API-Key: node_id:api_key`, split at the first colon. */
@Injectable()
export class NodeStrategy extends PassportStrategy(HeaderKeyStrategy, 'node') {
  constructor(
    doors: Doors,
    @Inject(NODE_KEYS) private readonly keys: NodeKeys,
    private readonly freshness: Freshness,
  ) {
    super('X-API-Key');
    doors.install('node', this);
  }

  async validate(request: Request, credential: string): Promise<NodePrincipal> {
    const colon = credential.indexOf(':');
    if (colon < 1 || colon === credential.length - 1) throw createRefusal('node', 'malformed');
    const nodeId = credential.slice(0, colon).toLowerCase();
    const isFresh = wantsFreshVerdict(request);
    if (isFresh) await this.freshness.noteArrival(request);
    const verdict = await this.keys.verifyKey(nodeId, credential.slice(colon + 1), isFresh);
    if (verdict.valid) {
      const forwarder = request.user as Principal | undefined;
      const forwardedBy = forwarder?.door === 'app' ? forwarder.caller : null;
      this.keys.recordUse(nodeId, forwardedBy);
      const { identity, rememberable } = verdict;
      return { door: 'node', nodeId, householdId: identity.household_id, forwardedBy, rememberable };
    }
    throw createRefusal(
      'node',
      verdict.reason,
      verdict.identity && { node_id: nodeId, household_id: verdict.identity.household_id },
    );
  }
}
