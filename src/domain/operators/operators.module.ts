import { Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { OperatorKeys } from './operator-keys.js';
import { Operator } from './operator.entity.js';
import { OperatorsService } from './operators.service.js';

@Module({
  imports: [TypeOrmModule.forFeature([Operator])],
  providers: [OperatorsService, OperatorKeys],
  exports: [OperatorsService, OperatorKeys],
})
export class OperatorsModule {}
