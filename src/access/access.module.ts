// The four doors: each authenticates a request by one kind of credential, and a route declares its doors with a
// decorator of require.ts. Terms: door, principal, credential, verdict (docs/glossary.md). Invariants: every route
// declares its doors exactly once; all refusals at a door look the same to the caller, and only the log has the reason.

import { Module } from '@nestjs/common';
import { Doors } from './doors.js';

@Module({ providers: [Doors], exports: [Doors] })
export class AccessModule {}
