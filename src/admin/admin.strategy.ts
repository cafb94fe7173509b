import { Injectable } from '@nestjs/common';
import { PassportStrategy } from '@nestjs/passport';
import type { Request } from 'express';
import { Doors, refusal } from '../access/doors.js';
import { HeaderKeyStrategy } from '../access/header-key.strategy.js';
import type { AdminPrincipal } from '../access/principals.js';
import { Environment } from '../config/environment.js';
import { sameSecret } from '../crypto/secret.js';

/** The admin door: `X-Admin-Key` is ADMIN_API_KEY. Without one configured, nobody comes in. */
@Injectable()
export class AdminStrategy extends PassportStrategy(HeaderKeyStrategy, 'admin') {
  constructor(
    doors: Doors,
    private readonly environment: Environment,
  ) {
    super('X-Admin-Key');
    doors.install('admin', this);
  }

  validate(_request: Request, key: string): AdminPrincipal {
    const { adminApiKey } = this.environment;
    if (adminApiKey === undefined) throw refusal('admin', 'door_closed');
    if (!sameSecret(key, adminApiKey)) throw refusal('admin', 'wrong_key');
    return { door: 'admin' };
  }
}
