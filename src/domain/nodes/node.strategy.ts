import { Injectable } from '@nestjs/common';
import { PassportStrategy } from '@nestjs/passport';
import type { Request } from 'express';
import { toActor } from '../../foundation/access/actor.js';
import type { NodePrincipal, Principal } from '../../foundation/access/principals.js';
import { Doors, HeaderKeyStrategy, isFreshVerdictWanted, type RouteDemand } from '../../foundation/access/doors.js';
import { TARGET_HEADER } from '../../foundation/access/route-declarations.js';
import { SERVICE_NAME_FORMAT } from '../../foundation/common/names.js';
import { Freshness } from '../revocation/freshness.js';
import { NodeDoor } from './node.door.js';

/** Reads `X-API-Key`, and `X-Platform-Target`, whose form the guard of the route has checked. */
@Injectable()
export class NodeStrategy extends PassportStrategy(HeaderKeyStrategy, 'node') {
  constructor(
    doors: Doors,
    private readonly door: NodeDoor,
    private readonly freshness: Freshness,
  ) {
    super('X-API-Key');
    doors.install('node', this);
  }

  validate(request: Request, credential: string, { isOwnKey }: RouteDemand): Promise<NodePrincipal> {
    const isFresh = isFreshVerdictWanted(request);
    const named = request.headers[TARGET_HEADER];
    const target = SERVICE_NAME_FORMAT.isName(named) ? named : undefined;
    const forwarder = request.user as Principal | undefined;
    const forwardedBy = forwarder?.door === 'app' ? forwarder.caller : null;
    const getActor = () => toActor(request);
    const verify = () => this.door.verifyNode({ credential, target, isOwnKey, forwardedBy, isFresh, getActor });
    return isFresh ? this.freshness.noteArrival(request).then(verify) : verify();
  }
}
