import { Module } from '@nestjs/common';
import { SealWriter } from './seal-writer.js';
import { AuditMonths } from './audit-months.js';
import { SealFold } from './seal-fold.js';

@Module({ providers: [SealWriter, AuditMonths, SealFold], exports: [SealWriter, AuditMonths, SealFold] })
export class SealsModule {}
