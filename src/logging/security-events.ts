import { Injectable } from '@nestjs/common';
import type { Request } from 'express';
import { requestIdOf } from '../common/request-id.js';
import { Log, type LogFields } from './log.js';

/** Names of everything worth a security record (ASVS 16.3). They are stable: alerts are written against them. */
export type SecurityEvent =
  | 'user.registered'
  | 'user.login.succeeded'
  | 'user.login.failed'
  | 'user.token.refused'
  | 'session.refreshed'
  | 'session.refresh.refused'
  | 'session.refresh.reused'
  | 'session.ended'
  | 'app.validation.failed'
  | 'node.validation.failed'
  | 'admin.key.refused'
  | 'admin.node.registered'
  | 'admin.node.updated'
  | 'admin.node.rotated'
  | 'admin.node.revoked'
  | 'admin.app_credential.minted'
  | 'admin.app_credential.rotated'
  | 'admin.app_credential.revoked'
  | 'admin.user.created'
  | 'admin.user.updated'
  | 'admin.user.deleted'
  | 'admin.user.sessions_revoked';

/** Writes one structured line for each security event, tied to its request. */
@Injectable()
export class SecurityEvents {
  constructor(private readonly log: Log) {}

  record(event: SecurityEvent, request: Request, fields: LogFields = {}): void {
    this.log.info(event, { event, request_id: requestIdOf(request), address: request.ip, ...fields });
  }
}
