import { Injectable } from '@nestjs/common';
import type { Request } from 'express';
import { getClientAddress } from '../common/client-address.js';
import { getCallerRequestId, getRequestId } from '../common/request-id.js';
import type { SecurityEvent } from '../common/security-event.js';
import type { LogFields } from './log-line.js';
import { Log } from './log.js';

/** Logged as warnings, so that LOG_LEVEL=warn keeps them. */
const IS_REFUSAL = /\.(failed|refused|reused|repeated_elsewhere|throttled)$/;

/** Writes one structured line for each security event, tied to its request. */
@Injectable()
export class SecurityEvents {
  constructor(private readonly log: Log) {}

  record(event: SecurityEvent, request: Request, fields: LogFields = {}): void {
    const origin = {
      event,
      request_id: getRequestId(request),
      caller_request_id: getCallerRequestId(request),
      address: getClientAddress(request),
    };
    const level = IS_REFUSAL.test(event) ? 'warn' : 'info';
    this.log.writeAbout(request, level, event, { ...origin, ...fields });
  }
}
