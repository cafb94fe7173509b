import { Module } from '@nestjs/common';
import { AuditModule } from '../audit/audit.module.js';
import { Environment } from '../config/environment.js';
import { MetricsModule } from '../metrics/metrics.module.js';
import { createMailTransport, MailTransport } from './mail-transport.js';
import { MailWorker } from './mail-worker.js';
import { Outbox } from './outbox.js';
import { Templates } from './templates.js';

@Module({
  imports: [AuditModule, MetricsModule],
  providers: [
    Outbox,
    MailWorker,
    { provide: MailTransport, inject: [Environment], useFactory: createMailTransport },
    {
      provide: Templates,
      inject: [Environment],
      useFactory: ({ mailTemplatesDir }: Environment) => Templates.load(mailTemplatesDir),
    },
  ],
  exports: [Outbox, MailWorker],
})
export class MailModule {}
