import { Injectable } from '@nestjs/common';
import { PassportStrategy } from '@nestjs/passport';
import type { Request } from 'express';
import { toActor } from '../../foundation/access/actor.js';
import type { AppPrincipal } from '../../foundation/access/principals.js';
import {
  createRefusal,
  Doors,
  HeaderKeyStrategy,
  isFreshVerdictWanted,
  type RouteDemand,
} from '../../foundation/access/doors.js';
import { Environment } from '../../foundation/config/environment.js';
import { Freshness } from '../revocation/freshness.js';
import { AppDoor } from './app.door.js';

/** Reads `X-Platform-App-Id` and `X-Platform-App-Key`. */
@Injectable()
export class AppStrategy extends PassportStrategy(HeaderKeyStrategy, 'app') {
  constructor(
    doors: Doors,
    private readonly door: AppDoor,
    private readonly freshness: Freshness,
    private readonly environment: Environment,
  ) {
    super('X-Platform-App-Key');
    doors.install('app', this);
  }

  validate(request: Request, key: string, asked: RouteDemand): Promise<AppPrincipal> {
    const id = request.headers['x-platform-app-id'];
    if (typeof id !== 'string') throw createRefusal('app', 'no_id');
    const isFreshWanted = isFreshVerdictWanted(request);
    const isFresh = isFreshWanted || asked.isFresh === true;
    const { target = this.environment.serviceName, appScope: scope } = asked;
    const verify = () => this.door.verifyApp({ id, key, target, scope, isFresh, getActor: () => toActor(request) });
    return isFreshWanted ? this.freshness.noteArrival(request).then(verify) : verify();
  }
}
