import { Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { provideKeyStore } from '../keys/key-store.js';
import { Operator } from './operator.entity.js';
import { OPERATOR_KEY_KIND, OPERATOR_KEYS, OperatorsService } from './operators.service.js';
import { RootKey } from './root-key.js';

@Module({
  imports: [TypeOrmModule.forFeature([Operator])],
  providers: [provideKeyStore(OPERATOR_KEYS, Operator, OPERATOR_KEY_KIND), OperatorsService, RootKey],
  exports: [OperatorsService, RootKey],
})
export class OperatorsModule {}
