import { Module } from '@nestjs/common';
import { Environment, getProductName } from '../../foundation/config/environment.js';
import { FailedLoginNotices } from './failed-login-notices.js';
import { createMailTransport, MailTransport } from './mail-transport.js';
import { Outbox } from './outbox.js';
import { Templates } from './templates.js';
import { MailWorker } from './mail-worker.js';

@Module({
  providers: [
    FailedLoginNotices,
    Outbox,
    MailWorker,
    { provide: MailTransport, inject: [Environment], useFactory: createMailTransport },
    {
      provide: Templates,
      inject: [Environment],
      useFactory: (environment: Environment) =>
        Templates.load(environment.mailTemplatesDir, getProductName(environment)),
    },
  ],
  exports: [FailedLoginNotices, Outbox, MailWorker],
})
export class MailModule {}
