import { Global, Module } from '@nestjs/common';
import { Log } from './log.js';
import { SecurityEvents } from './security-events.js';

@Global()
@Module({ providers: [Log, SecurityEvents], exports: [Log, SecurityEvents] })
export class LoggingModule {}
