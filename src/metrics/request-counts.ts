import { Injectable } from '@nestjs/common';
import { DOORS } from '../access/doors.js';
import type { Principal } from '../access/principals.js';
import type { RequestOutcome } from '../common/request-outcome.js';
import type { Answered } from '../http/request-log.js';
import { Log } from '../logging/log.js';
import { DurationsByRoute } from './durations.js';
import { Tally } from './tally.js';

const METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);
const NONE = 'none';
const VALID = 'valid';

/** What requests came to, in plain numbers. Every label is a word of this service: none comes from a caller. */
@Injectable()
export class RequestCounts {
  readonly requests = new Tally<[route: string, method: string, status: number, door: string]>();
  readonly durations = new DurationsByRoute();
  readonly verdicts = new Tally<[door: string, reason: string]>();
  readonly flowRefusals = new Tally<[event: string, reason: string]>();
  deliveryValidations = 0;

  constructor(private readonly log: Log) {
    for (const door of Object.keys(DOORS)) this.verdicts.expect(door, VALID);
  }

  /** Counts a request that has been answered. It waits for nothing. */
  count({ request, response, route, status, durationMs }: Answered): void {
    const method = METHODS.has(request.method) ? request.method : 'other';
    const { refusal, forwardedBy } = response.locals as RequestOutcome;
    const openedDoor = (request.user as Principal | undefined)?.door;
    const refusedDoor = refusal?.fields?.door;
    this.requests.add(route, method, status, openedDoor ?? refusedDoor ?? NONE);
    this.durations.observe(route, method, durationMs / 1_000);
    if (refusal) {
      if (refusedDoor === undefined) this.flowRefusals.add(refusal.event, refusal.reason);
      else this.verdicts.add(refusedDoor, refusal.reason);
    }
    if (openedDoor !== undefined) this.verdicts.add(openedDoor, VALID);
    if (forwardedBy !== undefined) this.verdicts.add('app', VALID);
    if (this.log.isOwnDelivery(request)) this.deliveryValidations += 1;
  }
}
