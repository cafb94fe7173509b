import { Injectable } from '@nestjs/common';
import { PassportStrategy } from '@nestjs/passport';
import type { Request } from 'express';
import { Doors, createRefusal } from '../access/doors.js';
import { HeaderKeyStrategy } from '../access/header-key.strategy.js';
import type { AdminPrincipal } from '../access/principals.js';
import { toActor } from '../access/to-actor.js';
import { CountedRefusals } from '../audit/counted-refusals.js';
import { getClientAddress } from '../common/client-address.js';
import { toNetwork } from '../common/network.js';
import { Environment } from '../config/environment.js';
import { isSameSecret } from '../crypto/secret.js';
import { AddressThrottle } from '../throttling/address-throttle.js';

/**
 * The admin door: `X-Admin-Key` must be ADMIN_API_KEY. Without that variable every key is refused. Wrong keys are throttled
 * by network and counted in the audit log. The right key is never throttled: it has 256 bits, so the limit protects the
 * logs and the CPU, and must not shut the operator out (docs/decisions/0030).
 */
@Injectable()
export class AdminStrategy extends PassportStrategy(HeaderKeyStrategy, 'admin') {
  constructor(
    doors: Doors,
    private readonly environment: Environment,
    private readonly throttle: AddressThrottle,
    private readonly refusals: CountedRefusals,
  ) {
    super('X-Admin-Key');
    doors.install('admin', this);
  }

  async validate(request: Request, key: string): Promise<AdminPrincipal> {
    const { adminApiKey } = this.environment;
    if (adminApiKey !== undefined && isSameSecret(key, adminApiKey)) return { door: 'admin' };
    const reason = adminApiKey === undefined ? 'door_closed' : 'wrong_key';
    const network = toNetwork(getClientAddress(request));
    await this.throttle.spend('admin-key', getClientAddress(request));
    await this.refusals.count(
      { event: 'admin.key.refused', reason, counted: network, subject: network },
      toActor(request),
    );
    throw createRefusal('admin', reason);
  }
}
