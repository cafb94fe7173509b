import { Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { AuditModule } from '../audit/audit.module.js';
import { OperatorKeys } from './operator-keys.js';
import { Operator } from './operator.entity.js';
import { OperatorsService } from './operators.service.js';
import { ScopeRefusals } from './scope-refusals.js';
import { Supervision } from './supervision.js';

@Module({
  imports: [AuditModule, TypeOrmModule.forFeature([Operator])],
  providers: [OperatorsService, OperatorKeys, ScopeRefusals, Supervision],
  exports: [OperatorsService, OperatorKeys, ScopeRefusals],
})
export class OperatorsModule {}
