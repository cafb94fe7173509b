// Structured logs: lines of fixed names and fields, shipped to the logging service, with the console as the fallback.
// Invariants: a line contains no secret and no text of a caller, memory is bounded, and logging never delays a request.

import { Global, Module } from '@nestjs/common';
import { Log } from './log.js';

@Global()
@Module({ providers: [Log], exports: [Log] })
export class LoggingModule {}
