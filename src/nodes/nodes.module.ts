import { Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { AccessModule } from '../access/doors.js';
import { AuditModule } from '../audit/audit.module.js';
import { RevocationModule } from '../revocation/revocation-feed.js';
import { provideKeyStore } from '../keys/key-store.js';
import { NodeStrategy, ValidateNodeController } from './node-door.js';
import { NODE_KEY_TABLE, NODE_KEYS, NodeDevice, NodesService } from './nodes.service.js';
import { RegistrationRetries } from './registration-retries.js';

@Module({
  imports: [AccessModule, AuditModule, RevocationModule, TypeOrmModule.forFeature([NodeDevice])],
  controllers: [ValidateNodeController],
  providers: [provideKeyStore(NODE_KEYS, NodeDevice, NODE_KEY_TABLE), NodesService, RegistrationRetries, NodeStrategy],
  exports: [NodesService, RegistrationRetries],
})
export class NodesModule {}
