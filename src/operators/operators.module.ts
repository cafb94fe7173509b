import { Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { AuditModule } from '../audit/audit.module.js';
import { OperatorKeys } from './operator-keys.js';
import { Operator, OperatorsService } from './operators.service.js';

@Module({
  imports: [AuditModule, TypeOrmModule.forFeature([Operator])],
  providers: [OperatorsService, OperatorKeys],
  exports: [OperatorsService, OperatorKeys],
})
export class OperatorsModule {}
