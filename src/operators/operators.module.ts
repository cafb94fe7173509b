import { Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { AuditModule } from '../audit/audit.module.js';
import { OperatorKeys } from './operator-keys.js';
import { OperatorTransactions } from './operator-transactions.js';
import { Operator } from './operator.entity.js';
import { OperatorsService } from './operators.service.js';

@Module({
  imports: [AuditModule, TypeOrmModule.forFeature([Operator])],
  providers: [OperatorsService, OperatorKeys, OperatorTransactions],
  exports: [OperatorsService, OperatorKeys],
})
export class OperatorsModule {}
