import { Injectable } from '@nestjs/common';
import { Counter } from 'prom-client';
import { MetricsRegistry, PREFIX, createSlowGauge } from '../metrics/metrics-registry.js';
import { MAIL_KINDS, type MailKind } from './mail-kinds.js';
import { Outbox } from './outbox.js';

/** `delayed`: it will be tried again. `failed`: it was given up. `dropped`: no account may get it. */
const OUTCOMES = ['sent', 'delayed', 'failed', 'dropped'] as const;
export type MailOutcome = (typeof OUTCOMES)[number];

@Injectable()
export class MailMetrics {
  private readonly mails;

  constructor(metrics: MetricsRegistry, outbox: Outbox) {
    this.mails = new Counter({
      name: `${PREFIX}mails_total`,
      help: 'Attempts to send a mail, by their outcome.',
      labelNames: ['kind', 'outcome'],
      registers: [metrics.registry],
    });
    // A series that begins at 1 has no increase: alerts would miss the first failure.
    for (const kind of MAIL_KINDS) for (const outcome of OUTCOMES) this.mails.inc({ kind, outcome }, 0);
    const waiting = createSlowGauge(() => outbox.countWaiting());
    metrics.addGauge('mails_waiting', 'Mails in the outbox, of all replicas.', waiting, 'max');
  }

  count(kind: MailKind, outcome: MailOutcome): void {
    this.mails.inc({ kind, outcome });
  }
}
