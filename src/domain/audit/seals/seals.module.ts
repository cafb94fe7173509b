import { Module } from '@nestjs/common';
import { SealWriter } from './seal-writer.js';
import { AuditMonths } from './audit-months.js';

@Module({ providers: [SealWriter, AuditMonths], exports: [SealWriter, AuditMonths] })
export class SealsModule {}
