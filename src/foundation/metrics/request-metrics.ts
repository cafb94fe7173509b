import { Injectable } from '@nestjs/common';
import { Counter, Histogram } from 'prom-client';
import { describeAdmin } from '../access/actor.js';
import { type Principal, DOORS } from '../access/principals.js';
import { REFUSAL_EVENT_NAMES, REFUSAL_REASONS } from '../common/security-events.js';
import type { CompletedRequest } from '../http/request-log.js';
import { Log } from '../logging/log.js';
import { MetricsRegistry, PREFIX } from './metrics-registry.js';

/** Upper bounds in seconds: a validation takes about one millisecond, a login a few hundred. */
const BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5];
const METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);
const NO_DOOR = 'none';
const VALID = 'valid';
const FAILURES = ['500', '503'] as const;

/** Counts requests and verdicts. Labels are words of this service and names of operators, never text of a caller. */
@Injectable()
export class RequestMetrics {
  private readonly requests;
  private readonly durations;
  private readonly failures;
  private readonly verdicts;
  private readonly flowRefusals;
  private readonly deliveryValidations;
  private readonly adminRequests;

  constructor(
    { registry }: MetricsRegistry,
    private readonly log: Log,
  ) {
    const createCounter = <Label extends string>(name: string, help: string, ...labelNames: Label[]): Counter<Label> =>
      new Counter({ name: PREFIX + name, help, labelNames, registers: [registry] });
    const requestsHelp = 'Completed requests; 499 where the client closed the connection first.';
    this.requests = createCounter('http_requests_total', requestsHelp, 'route', 'method', 'status', 'door');
    this.durations = new Histogram({
      name: `${PREFIX}http_request_duration_seconds`,
      help: 'From the first byte of a request to the end of its response.',
      labelNames: ['route', 'method'],
      buckets: BUCKETS,
      registers: [registry],
    });
    this.failures = createCounter('http_failures_total', 'Requests that this service failed to answer.', 'status');
    this.verdicts = createCounter('verdicts_total', 'Verdicts of the doors.', 'door', 'reason');
    const flowHelp = 'Refused logins and refreshes, and throttled calls.';
    this.flowRefusals = createCounter('flow_refusals_total', flowHelp, 'event', 'reason');
    this.deliveryValidations = createCounter(
      'log_delivery_validations_total',
      'Validations of our own deliveries, requested by the logging service: counted, never shipped.',
    );
    this.adminRequests = createCounter(
      'admin_requests_total',
      'Completed requests with a valid admin key, by actor: admin (the root key) or operator:<name>.',
      'actor',
    );
    this.startAtZero();
  }

  /** Starts every series at 0: one that begins at 1 has no increase, so an alert would miss the first refusal. */
  private startAtZero(): void {
    this.adminRequests.inc({ actor: describeAdmin(undefined) }, 0);
    for (const status of FAILURES) this.failures.inc({ status }, 0);
    const doors = new Map(Object.entries(DOORS).map(([door, { refusalEvent }]) => [refusalEvent as string, door]));
    for (const door of doors.values()) this.verdicts.inc({ door, reason: VALID }, 0);
    for (const event of REFUSAL_EVENT_NAMES) {
      const door = doors.get(event);
      for (const reason of REFUSAL_REASONS[event]) {
        if (door === undefined) this.flowRefusals.inc({ event, reason }, 0);
        else this.verdicts.inc({ door, reason }, 0);
      }
    }
  }

  /** Must stay synchronous and cheap, because every validation pays for it (0.8 µs, docs/decisions/0029). */
  count({ request, route, status, durationMs }: CompletedRequest): void {
    const method = METHODS.has(request.method) ? request.method : 'other';
    const refusal = request.refused?.refusal;
    const principal = request.user as Principal | undefined;
    const refusedBy = refusal?.fields?.door;
    this.requests.inc({ route, method, status, door: refusedBy ?? principal?.door ?? NO_DOOR });
    this.durations.observe({ route, method }, durationMs / 1_000);
    if (status >= 500) this.failures.inc({ status: String(status) });
    if (refusal) {
      const { event, reason } = refusal;
      if (refusedBy === undefined) this.flowRefusals.inc({ event, reason });
      else this.verdicts.inc({ door: refusedBy, reason });
    }
    if (principal) this.verdicts.inc({ door: principal.door, reason: VALID });
    if (principal?.door === 'admin') this.adminRequests.inc({ actor: describeAdmin(principal.operator?.name) });
    if (principal?.door === 'node' && principal.forwardedBy !== null) this.verdicts.inc({ door: 'app', reason: VALID });
    if (this.log.isOwnDelivery(request)) this.deliveryValidations.inc();
  }
}
