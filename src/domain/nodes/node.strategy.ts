import { Injectable, Inject } from '@nestjs/common';
import { PassportStrategy } from '@nestjs/passport';
import type { Request } from 'express';
import { type NodePrincipal, toActor, type Principal } from '../../foundation/access/actor.js';
import { HeaderKeyStrategy, Doors, createRefusal } from '../../foundation/access/doors.js';
import { TARGET_HEADER } from '../../foundation/access/route-declarations.js';
import { SERVICE_NAME } from '../../foundation/common/names.js';
import { Freshness, wantsFreshVerdict } from '../revocation/propagation.js';
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
    const named = request.headers[TARGET_HEADER];
    const target = SERVICE_NAME.isName(named) ? named : undefined;
    const verdict = await this.keys.verifier.verifyKey(nodeId, credential.slice(colon + 1), { target }, isFresh);
    if (!verdict.valid) {
      const isViolation = verdict.reason === 'violation';
      const reason = isViolation ? 'target' : verdict.reason;
      if (!verdict.identity) throw createRefusal('node', reason);
      this.keys.verifier.recordRefusal(nodeId, reason, toActor(request));
      const fields = { node_id: nodeId, household_id: verdict.identity.household_id };
      throw createRefusal('node', reason, { ...fields, called_service: isViolation ? target : undefined });
    }
    const { identity, isPrevious, rememberable } = verdict;
    const { household_id: householdId, targets } = identity;
    const forwarder = request.user as Principal | undefined;
    const forwardedBy = forwarder?.door === 'app' ? forwarder.caller : null;
    this.keys.verifier.recordUse(nodeId, forwardedBy ?? target ?? null, isPrevious);
    return { door: 'node', nodeId, householdId, targets, forwardedBy, rememberable };
  }
}
