import { Module } from '@nestjs/common';
import { AuditMonths } from './audit-months.js';
import { SealWriter } from './seal-writer.js';

@Module({ providers: [SealWriter, AuditMonths], exports: [SealWriter, AuditMonths] })
export class SealsModule {}
