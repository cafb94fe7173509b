import { Injectable } from '@nestjs/common';
import { PassportStrategy } from '@nestjs/passport';
import type { Request } from 'express';
import { toActor } from '../../foundation/access/actor.js';
import type { AdminPrincipal } from '../../foundation/access/principals.js';
import { Doors, HeaderKeyStrategy, type RouteDemand } from '../../foundation/access/doors.js';
import { AdminDoor } from './admin.door.js';

@Injectable()
export class AdminStrategy extends PassportStrategy(HeaderKeyStrategy, 'admin') {
  constructor(
    doors: Doors,
    private readonly door: AdminDoor,
  ) {
    super('X-Admin-Key');
    doors.install('admin', this);
  }

  async validate(request: Request, key: string, { operatorScope }: RouteDemand): Promise<AdminPrincipal> {
    const getActor = () => toActor(request);
    const principal = await this.door.verifyAdminKey(key, getActor);
    // Set before the scope is checked, so that metrics, log and audit log name the operator even when the call is
    // refused.
    request.user = principal;
    if (operatorScope === undefined) throw new Error('The route declares no scope');
    const method = request.declared?.isRead ? 'GET' : request.method;
    await this.door.refuseMissingScope(principal, operatorScope, method, getActor);
    return principal;
  }
}
