import { Injectable } from '@nestjs/common';
import { Counter } from 'prom-client';
import { MetricsRegistry, PREFIX } from '../metrics/metrics-registry.js';
import { AUDIT_EVENT_NAMES, type AuditEventName } from './audit-event.js';
import { COUNTED_EVENTS } from './counted-refusals.js';

const COUNTED: readonly AuditEventName[] = COUNTED_EVENTS;
/** Written by another process, the command line, or in batches. */
const ELSEWHERE = /^(signing_key|users)\.|\.first_used$/;

/** Counts the acts in the audit log, once they are committed. */
@Injectable()
export class ActMetrics {
  private readonly acts;

  constructor({ registry }: MetricsRegistry) {
    this.acts = new Counter({
      name: `${PREFIX}acts_total`,
      help: 'Committed acts, by the name of their audit event.',
      labelNames: ['event'],
      registers: [registry],
    });
    // A series that begins at 1 has no increase: alerts would miss the first act of its kind.
    for (const event of AUDIT_EVENT_NAMES) if (isAct(event)) this.acts.inc({ event }, 0);
  }

  count(event: AuditEventName): void {
    this.acts.inc({ event });
  }
}

/** Refusals have metrics of their own (request-metrics.ts). */
function isAct(event: AuditEventName): boolean {
  return !COUNTED.includes(event) && !ELSEWHERE.test(event);
}
