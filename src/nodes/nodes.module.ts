import { Module } from '@nestjs/common';
import { AccessModule } from '../access/doors.js';
import { AuditModule } from '../audit/audit.module.js';
import { RevocationModule } from '../revocation/revocation.module.js';
import { TypeOrmModule } from '@nestjs/typeorm';
import { provideKeyStore } from '../keys/key-store.js';
import { NodeDevice } from './node-device.entity.js';
import { NodeStrategy } from './node.strategy.js';
import { NODE_KEYS, NodesService } from './nodes.service.js';
import { RegistrationRetries } from './registration-retries.js';
import { ValidateNodeController } from './validate-node.controller.js';

@Module({
  imports: [AccessModule, AuditModule, RevocationModule, TypeOrmModule.forFeature([NodeDevice])],
  controllers: [ValidateNodeController],
  providers: [
    provideKeyStore(NODE_KEYS, NodeDevice, {
      name: 'nodes',
      door: 'node',
      auditPrefix: 'admin.node',
      identityColumns: ['household_id'],
      keyPrefix: 'pa_node_',
      toLogFields: ({ id }) => ({ node_id: id }),
    }),
    NodesService,
    RegistrationRetries,
    NodeStrategy,
  ],
  exports: [NodesService, RegistrationRetries],
})
export class NodesModule {}
